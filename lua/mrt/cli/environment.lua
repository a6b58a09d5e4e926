--- environment.lua -- every environment variable that the program reads
---
--- `mrt help environment` prints them, the manual lists them.  spec/cli/environment_spec.lua
--- searches the sources for others.
---
--- SPDX-License-Identifier: MIT

---@class mrt.EnvironmentGroup
---@field [1] string    what they are about
---@field [2] string[][]  name, what it says

---@type mrt.EnvironmentGroup[]
return {
  { "how it computes", {
    { "MRT_THREADS", "threads, from 1 to 1024; else OMP_NUM_THREADS, or the cores it may use" },
    { "OMP_NUM_THREADS", "the same, as schedulers of shared machines set it" },
    { "MRT_ISA", "the instruction set of the kernels: base, avx2, avx512, avx512+bf16, "
      .. "avx512+amx; else the quickest that the processor has" },
    { "MRT_WINOGRAD", "off: no convolution of 3 x 3 by Winograd's fewer multiplications, which "
      .. "round otherwise" },
    { "MRT_POISON", "1: overwrite each value when it dies, so that a read that comes too late "
      .. "shows" },
    { "MRT_LAPACK", "the file of LAPACK for mrt.linalg, off: do without; else liblapack.so.3" },
    { "TMPDIR", "the folder of the swap file, and of temporary files; else /tmp" },
  } },
  { "devices", {
    { "MRT_DEVICE", "what plans are made for: a profile of mrt info --devices, or a file that "
      .. "returns one; declared: nothing is measured" },
    { "MRT_CUDA", "the file of the CUDA plug-in; else libmrt_cuda.so beside the program; likewise "
      .. "MRT_NAME of a device called NAME" },
    { "MRT_CUDA_ATTENTION", "tile: attention by plain kernels, without matrix units or cuDNN; mma: "
      .. "without those for Hopper's warpgroups" },
    { "MRT_CUDA_LT", "off: products by kernels of our own; first: by cuBLASLt's first algorithm, "
      .. "none is timed" },
    { "MRT_CUDA_SYNC", "1: each node of a plan is waited for, so that a failure names it; nothing "
      .. "is recorded" },
    { "MRT_CUDNN", "the file of cuDNN, off: do without" },
    { "MRT_CUDA_GRAPHS", "off: each step is queued node by node, not as a CUDA graph" },
    { "MRT_NCCL", "the file of NCCL, off: do without" },
    { "NCCL_HOSTID", "what NCCL takes for the host: processes with different ones share a GPU" },
    { "MRT_NCCL_SELF", "1: a communicator of one rank goes through NCCL, too" },
  } },
  { "ranks: mrt launch, torchrun, mpirun and Slurm set most of these", {
    { "RANK", "this process's number, from 0" },
    { "WORLD_SIZE", "how many there are" },
    { "LOCAL_RANK", "its number among those of this host" },
    { "LOCAL_WORLD_SIZE", "how many are on this host" },
    { "MASTER_ADDR", "where they meet: rank 0's host; else 127.0.0.1, or Slurm's first node" },
    { "MASTER_PORT", "the port there; else 29500, or one by the job's number" },
    { "MRT_RUN", "a text that only the ranks of this run know, the same for each" },
    { "MRT_RUN_FILE", "the file of a secret of yours, where MRT_RUN is not set; else mrt-secret in "
      .. "XDG_CONFIG_HOME, or ~/.mrt-secret" },
    { "MRT_TRANSPORT", "how they talk: shared (memory), sockets or mpi; else by where they are and "
      .. "who started them (mrt info)" },
    { "MRT_MPI", "the file of the MPI plug-in; else libmrt_mpi.so beside the program" },
    { "MRT_HOST", "this host's name, where several ranks are to count as one host or not" },
    { "MRT_LISTENER", "set by mrt launch: the port's file number, for rank 0" },
    { "MRT_RESTART", "set by mrt launch for scripts: how often it was started anew" },
    { "OMPI_COMM_WORLD_RANK", "Open MPI's, as well as .._SIZE, .._LOCAL_RANK, .._LOCAL_SIZE" },
    { "OMPI_COMM_WORLD_SIZE" }, { "OMPI_COMM_WORLD_LOCAL_RANK" },
    { "OMPI_COMM_WORLD_LOCAL_SIZE" },
    { "OMPI_MCA_orte_precondition_transports", "Open MPI's secret of the run" },
    { "PMIX_NAMESPACE", "PMIx's name of the run, with PMIX_RANK: MPI can begin" },
    { "PMIX_RANK" },
    { "PMI_RANK", "MPICH's, as well as PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS" },
    { "PMI_SIZE" }, { "MPI_LOCALRANKID" }, { "MPI_LOCALNRANKS" },
    { "SLURM_PROCID", "Slurm's, as well as SLURM_NTASKS, SLURM_LOCALID, SLURM_NTASKS_PER_NODE, "
      .. "the step's and job's nodes (SLURM_STEP_NODELIST, SLURM_JOB_NODELIST) and their count, "
      .. "SLURM_JOB_ID, SLURM_STEP_ID" },
    { "SLURM_NTASKS" }, { "SLURM_LOCALID" }, { "SLURM_NTASKS_PER_NODE" },
    { "SLURM_STEP_NODELIST" }, { "SLURM_JOB_NODELIST" }, { "SLURM_STEP_NUM_NODES" },
    { "SLURM_NNODES" }, { "SLURM_JOB_ID" }, { "SLURM_STEP_ID" },
    { "TORCHELASTIC_RUN_ID", "torchrun's name of the run" },
    { "TORCHELASTIC_USE_AGENT_STORE", "torchrun's: True, where it listens at the port itself" },
  } },
  { "files of yours", {
    { "HOME", "where those below are, if they are not set" },
    { "XDG_STATE_HOME", "the prompt's history, in mrt/history; else ~/.local/state" },
    { "XDG_CACHE_HOME", "what was measured of this machine, compiled kernels, in mrt/; else "
      .. "~/.cache" },
    { "XDG_CONFIG_HOME", "the secret of your ranks; else your home" },
  } },
  { "what it prints", {
    { "NO_COLOR", "set: no colours" },
    { "MRT_TRACEBACK", "full: an error shows mrt's own functions too, each by its line" },
    { "TERM", "dumb: no colours" },
    { "COLUMNS", "the width of help, where there is no terminal" },
  } },
  { "Lua", {
    { "LUA_INIT", "code, or @FILE, that runs before everything; LUA_INIT_5_4 comes first; -E "
      .. "ignores both" },
    { "LUA_PATH", "where require looks for Lua files, after the library's own; LUA_PATH_5_4 comes "
      .. "first; -E ignores both" },
    { "LUA_CPATH", "where require looks for shared libraries; LUA_CPATH_5_4 comes first; -E "
      .. "ignores both" },
  } },
  { "benchmarks", {
    { "PYTHON", "the Python whose libraries are compared with; else python3" },
    { "MRT_BENCH_PYTHON", "the same, of mrt bench embedding" },
    { "MRT_DATA", "the folder of data of mrt bench precision" },
  } },
}
