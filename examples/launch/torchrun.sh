#!/bin/sh
# Two hosts, one rank on each: run it on both, with the host's number from 0.
#
#     NODE=0 sh torchrun.sh --way pipeline     # on host0
#     NODE=1 sh torchrun.sh --way pipeline     # on host1
#
# torchrun has no MPI: messages go by mrt's own TCP mesh, which the log says. Ranks know
# each other by ~/.mrt-secret; hosts without a common home set MRT_RUN to the same text.
cd "$(dirname "$0")" || exit
exec torchrun --nnodes 2 --node_rank "$NODE" --nproc_per_node 1 \
  --master_addr host0 --master_port 29500 --no_python mrt train.lua "$@"
