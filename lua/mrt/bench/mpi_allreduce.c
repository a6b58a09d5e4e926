/* mpi_allreduce.c -- MPI's part of `mrt bench collectives`
 *
 * Prints, on rank 0, "mpi SIZE SECONDS" for each size in bytes, and
 * "mpibarrier 0 SECONDS": the best of three runs, as collectives_rank.lua.
 *
 * SPDX-License-Identifier: MIT */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double best_of(double best, double seconds) {
  return best == 0 || seconds < best ? seconds : best;
}

static double time_allreduce(float *data, int n, int count) {
  double best = 0;
  MPI_Allreduce(MPI_IN_PLACE, data, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  for (int run = 0; run < 3; run++) {
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    for (int i = 0; i < count; i++)
      MPI_Allreduce(MPI_IN_PLACE, data, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    best = best_of(best, (MPI_Wtime() - began) / count);
  }
  return best;
}

static double time_barrier(int count) {
  double best = 0;
  for (int run = 0; run < 3; run++) {
    double began = MPI_Wtime();
    for (int i = 0; i < count; i++) MPI_Barrier(MPI_COMM_WORLD);
    best = best_of(best, (MPI_Wtime() - began) / count);
  }
  return best;
}

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 1; i < argc; i++) {
    long size = atol(argv[i]), count = (1L << 27) / size;
    float *data = calloc(1, (size_t)size);
    if (!data) return 1;
    count = count < 4 ? 4 : count > 2000 ? 2000 : count;
    double t = time_allreduce(data, (int)(size / 4), (int)count);
    if (rank == 0) printf("mpi %ld %.9f\n", size, t);
    free(data);
  }
  double t = time_barrier(10000);
  if (rank == 0) printf("mpibarrier 0 %.9f\n", t);
  MPI_Finalize();
  return 0;
}
