#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --time=10
#SBATCH --output=slurm-%j.out
# A batch job: sbatch slurm.sh --way pipeline
#
# With --mpi=pmix messages go by MPI, if mrt was built beside one that speaks PMIx; without
# it (MPI=none) they go by mrt's own TCP mesh. --kill-on-bad-exit ends all tasks when one
# has failed; they have been told its name by then.
exec srun --mpi="${MPI:-pmix}" --kill-on-bad-exit=1 mrt train.lua "$@"
