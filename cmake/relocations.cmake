# Addresses that the loader fills in, packed: a bit each for most, not 24 bytes.
# What is linked so wants glibc 2.36 where it runs, so an older one has them plain.
include(CheckLinkerFlag)
include(CheckCSourceCompiles)
set(pack_relocations -Wl,-z,pack-relative-relocs)
check_linker_flag(C ${pack_relocations} MRT_LINKER_PACKS)
check_c_source_compiles("#include <features.h>
#if !defined __GLIBC_PREREQ || !__GLIBC_PREREQ(2, 36)
#error
#endif
int main(void) { return 0; }" MRT_LOADER_UNPACKS)
if(MRT_LINKER_PACKS AND MRT_LOADER_UNPACKS)
  add_link_options($<$<NOT:$<LINK_LANGUAGE:CUDA>>:${pack_relocations}>)
endif()
