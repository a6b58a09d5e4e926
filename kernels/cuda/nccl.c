#include "nccl.h"
mrt_status mrt_nccl_open(mrt_cuda *c, mrt_team *team, mrt_error *e) { (void)c,(void)team,(void)e; return MRT_OK; }
void mrt_nccl_close(mrt_cuda *c, mrt_team *team) {(void)c,(void)team;}
bool mrt_nccl_takes(const mrt_team *team, const mrt_collective *asked){(void)team,(void)asked;return false;}
void mrt_nccl_queue(mrt_cuda *c, mrt_team *team, const mrt_collective *asked, int count, const mrt_call *call){(void)c,(void)team,(void)asked,(void)count,(void)call;}
void mrt_nccl_forget(mrt_cuda *c, void *data){(void)c,(void)data;}
