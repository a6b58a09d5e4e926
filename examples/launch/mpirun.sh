#!/bin/sh
# Two hosts with Open MPI and mrt at the same place, one rank on each: run it on host0,
# from which ssh reaches host1.
#
#     sh mpirun.sh --way pipeline
#
# Ranks find each other, and exchange messages, by MPI. MPICH's: mpiexec -n 2 -hosts ...
cd "$(dirname "$0")" || exit
exec mpirun -n 2 --host host0,host1 --bind-to none mrt train.lua "$@"
