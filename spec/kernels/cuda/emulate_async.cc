/* emulate_async.cc -- copies to shared memory and products of warpgroups
 *
 * What happens between the start of such a thing and its wait nobody knows on a
 * GPU, so here nothing may depend on it.  What a copy writes is NaN until its
 * thread waits for it, and no product may read it before that thread has called
 * fence.proxy.async.  A product reads its operands when its first thread begins
 * it; they must still be the same when the first thread of the warpgroup, and
 * the last, wait for it; what it writes is NaN until then, and must have stayed
 * so.  Descriptors are those of "Asynchronous warpgroup level matrix shared
 * memory layout" of the PTX ISA, all three strides and four swizzles, and must
 * be the same in all threads of a warpgroup.
 *
 * SPDX-License-Identifier: MIT */
#include "emulate_async.h"
#include "emulate_inside.h"
#include <cstring>

namespace {

enum { LANES = 32, GROUP = 128, ROWS = 64, DEEP = 16, PACK = 16 };
/* Where dynamic shared memory begins: behind what the system has and a static
 * variable. */
enum { FIRST_ADDRESS = 1024 + PACK };

/* ---- the block that runs ------------------------------------------------- */

struct copy {
  uint32_t to; /* pack */
  unsigned char bytes[PACK];
};

/* A product of a warpgroup. */
struct product {
  mrt_emulate_product is;                      /* as its first thread has it */
  std::vector<uint16_t> a_bits, b_bits;        /* [64][16], [16][columns] */
  std::vector<float> a, b;                     /* the same */
  std::vector<std::vector<uint32_t>> a_pieces; /* of threads; or none */
  bool has_rows[4];                            /* of warps, in `a` */
  int waited;                                  /* threads */
};

/* A thread's part of a product. */
struct part {
  size_t number; /* of the warpgroup's products */
  const uint32_t *a_registers;
  float *d;
};
/* The result of products that are under way. */
struct result {
  float *d;
  int columns, products;
  std::vector<float> sum;
};

struct thread {
  std::vector<copy> begun;
  std::deque<std::vector<copy>> copies;
  std::vector<uint32_t> written; /* packs that products must not read yet */
  std::vector<part> given;
  std::deque<std::vector<part>> products;
  std::vector<result> results;
  size_t count; /* of products given */
  bool fenced;
};
struct group {
  std::deque<product> products;
  size_t first; /* the number of the first that is still here */
};

char *shared;
size_t shared_bytes;
int thread_count;
std::vector<char> is_fresh; /* by pack: no fence yet */
std::vector<thread> threads;
std::vector<group> groups;
bool faulty;

void fault(const char *what) {
  char text[300];
  if (faulty) return;
  faulty = true;
  snprintf(text, sizeof text, "kernel %s: thread %d: %s", running_kernel(),
           running_thread(), what);
  broken(cudaErrorLaunchFailure, text);
}

/* Most kernels need none of this. */
thread *self() {
  if (threads.empty()) {
    is_fresh.assign(shared_bytes / PACK + 1, false);
    threads.assign((size_t)thread_count, thread());
    groups.assign((size_t)(thread_count + GROUP - 1) / GROUP, group());
  }
  return &threads[(size_t)running_thread()];
}

/* ---- matrices in shared memory ------------------------------------------- */

struct descriptor {
  uint32_t start, leading, stride;
  int swizzle; /* packs that change places: 1, 2, 4, 8 */
};

descriptor decode(uint64_t bits) {
  static const int swizzles[] = { 1, 8, 4, 2 };
  descriptor d = { (uint32_t)(bits & 0x3fff) << 4,
                   (uint32_t)(bits >> 16 & 0x3fff) << 4,
                   (uint32_t)(bits >> 32 & 0x3fff) << 4, swizzles[bits >> 62] };
  if (bits >> 49 & 7) fault("a descriptor's base offset is not 0");
  if (bits & UINT64_C(0x3ff1c000c000c000))
    fault("a descriptor has bits that mean nothing");
  return d;
}

/* Of element i along M or N and k along K, by the table of canonical layouts:
 * T = 8 elements are a pack. */
uint32_t address_of(const descriptor &d, bool turned, uint32_t i, uint32_t k) {
  uint32_t s = (uint32_t)d.swizzle, at;
  if (!turned)
    at = i % 8 * s * PACK + i / 8 * d.stride + k % 8 * 2 +
         k / 8 * (s == 1 ? d.leading : (uint32_t)PACK);
  else if (s == 1)
    at = i % 8 * 2 + i / 8 * d.stride + k % 8 * PACK + k / 8 * d.leading;
  else
    at = i % 8 * 2 + i / 8 % s * PACK + i / 8 / s * d.leading +
         k % 8 * s * PACK + k / 8 * d.stride;
  at += d.start;
  return at ^ (at >> 7 & (s - 1)) << 4;
}

uint16_t read(uint32_t address) {
  uint16_t bits = 0xffff;
  uint32_t at = address - FIRST_ADDRESS;
  if (address < FIRST_ADDRESS || at + sizeof bits > shared_bytes)
    fault("a product reads beyond shared memory");
  else if (is_fresh[at / PACK])
    fault("a product reads what was copied, without a fence.proxy.async");
  else
    memcpy(&bits, shared + at, sizeof bits);
  return bits;
}

std::vector<uint16_t> read_a(const mrt_emulate_product &p) {
  std::vector<uint16_t> bits;
  if (p.a_registers) return bits;
  descriptor d = decode(p.a);
  for (uint32_t i = 0; i < ROWS; i++)
    for (uint32_t k = 0; k < DEEP; k++)
      bits.push_back(read(address_of(d, false, i, k)));
  return bits;
}
std::vector<uint16_t> read_b(const mrt_emulate_product &p) {
  std::vector<uint16_t> bits;
  descriptor d = decode(p.b);
  for (uint32_t k = 0; k < DEEP; k++)
    for (uint32_t j = 0; j < (uint32_t)p.columns; j++)
      bits.push_back(read(address_of(d, p.turned, j, k)));
  return bits;
}

/* ---- products ------------------------------------------------------------ */

product begin(const mrt_emulate_product &p) {
  product x = {};
  x.is = p;
  x.a_bits = read_a(p), x.b_bits = read_b(p);
  for (uint16_t bits : x.a_bits) x.a.push_back(p.widen(bits));
  for (uint16_t bits : x.b_bits) x.b.push_back(p.widen(bits));
  if (p.a_registers) x.a.resize(ROWS * DEEP), x.a_pieces.resize(GROUP);
  for (bool &has : x.has_rows) has = !p.a_registers;
  return x;
}

bool is_same(const mrt_emulate_product &p, const mrt_emulate_product &q) {
  return p.a == q.a && p.b == q.b && !p.a_registers == !q.a_registers &&
         p.columns == q.columns && p.turned == q.turned && p.adds == q.adds;
}

/* The rows of a warp, from its lanes' registers. */
void gather(product *x, int warp) {
  if (x->has_rows[warp]) return;
  x->has_rows[warp] = true;
  for (int i = 0; i < 16; i++)
    for (int k = 0; k < DEEP; k++) {
      int lane = i % 8 * 4 + k % 8 / 2, piece = i / 8 + k / 8 * 2;
      uint32_t two = x->a_pieces[(size_t)(LANES * warp + lane)][(size_t)piece];
      x->a[(size_t)((16 * warp + i) * DEEP + k)] =
          x->is.widen((uint16_t)(two >> k % 2 * 16));
    }
}

/* A thread's elements. */
void add(const product &x, int t, std::vector<float> *sum) {
  int lane = t % LANES, columns = x.is.columns;
  for (int e = 0; e < columns / 2; e++) {
    int row = t / LANES * 16 + lane / 4 + e % 4 / 2 * 8;
    int column = e / 4 * 8 + lane % 4 * 2 + e % 2;
    float part = 0;
    for (int k = 0; k < DEEP; k++)
      part +=
          x.a[(size_t)(row * DEEP + k)] * x.b[(size_t)(k * columns + column)];
    float *to = &(*sum)[(size_t)e];
    *to = x.is.adds ? *to + part : part;
  }
}

result *result_of(thread *s, float *d, int columns) {
  for (result &r : s->results)
    if (r.d == d) return &r;
  result r = { d, columns, 0, std::vector<float>(d, d + columns / 2) };
  memset(d, 0xff, (size_t)columns / 2 * sizeof *d);
  s->results.push_back(r);
  return &s->results.back();
}

void give_result(thread *s, const result &r) {
  for (size_t i = 0; i < r.sum.size(); i++)
    if (__float_as_uint(r.d[i]) != ~0u)
      fault("a product's result was touched before its wait");
  memcpy(r.d, r.sum.data(), r.sum.size() * sizeof(float));
  for (size_t i = 0; i < s->results.size(); i++)
    if (s->results[i].d == r.d) {
      s->results.erase(s->results.begin() + (long)i);
      return;
    }
}

void end(thread *s, const part &p) {
  int t = running_thread() % GROUP;
  group *g = &groups[(size_t)(running_thread() / GROUP)];
  product *x = &g->products[p.number - g->first];
  bool first = x->waited++ == 0, last = x->waited == GROUP;
  if ((first || last) &&
      (read_a(x->is) != x->a_bits || read_b(x->is) != x->b_bits))
    fault("shared memory that a product reads was written before its wait");
  if (p.a_registers && memcmp(p.a_registers, x->a_pieces[(size_t)t].data(),
                              4 * sizeof(uint32_t)))
    fault("registers that a product reads were written before its wait");
  gather(x, t / LANES);
  result *r = result_of(s, p.d, x->is.columns);
  add(*x, t, &r->sum);
  if (--r->products == 0) give_result(s, *r);
  while (!g->products.empty() && g->products.front().waited == GROUP)
    g->products.pop_front(), g->first++;
}

} // namespace

void begin_async(void *at, size_t bytes, int count) {
  shared = (char *)at, shared_bytes = bytes, faulty = false;
  threads.clear(), groups.clear();
  thread_count = count;
}

bool end_async() {
  for (const thread &s : threads)
    if (!s.products.empty() || !s.given.empty())
      fault("a thread returned before its products were waited for");
  return !faulty;
}

uint32_t mrt_emulate_shared_address(const void *at) {
  return FIRST_ADDRESS + (uint32_t)((const char *)at - shared);
}

/* ---- copies -------------------------------------------------------------- */

void mrt_emulate_copy_async(uint32_t to, const void *from) {
  thread *s = self();
  uint32_t at = to - FIRST_ADDRESS;
  if (to < FIRST_ADDRESS || at + PACK > shared_bytes || at % PACK)
    return fault("a copy to no place of shared memory");
  if ((uintptr_t)from % PACK) return fault("a copy from an odd address");
  copy c = { at / PACK, {} };
  if (from) memcpy(c.bytes, from, PACK);
  memset(shared + at, 0xff, PACK);
  is_fresh[c.to] = true;
  s->begun.push_back(c);
}
void mrt_emulate_copies_commit(void) {
  thread *s = self();
  s->copies.push_back(s->begun);
  s->begun.clear();
}
void mrt_emulate_copies_wait(int newest) {
  thread *s = self();
  for (; s->copies.size() > (size_t)newest; s->copies.pop_front())
    for (const copy &c : s->copies.front()) {
      memcpy(shared + c.to * PACK, c.bytes, PACK);
      s->written.push_back(c.to);
    }
}
void mrt_emulate_proxy_fence(void) {
  thread *s = self();
  for (uint32_t pack : s->written) is_fresh[pack] = false;
  s->written.clear();
}

/* ---- wgmma --------------------------------------------------------------- */

void mrt_emulate_wgmma(const mrt_emulate_product &p) {
  int t = running_thread();
  thread *s = self();
  group *g = &groups[(size_t)(t / GROUP)];
  if (faulty) return;
  if (threads.size() % GROUP) return fault("the block is no whole warpgroups");
  if (!s->fenced) return fault("a product without a wgmma.fence before");
  size_t number = s->count++, at = number - g->first;
  if (at == g->products.size()) g->products.push_back(begin(p));
  product *x = &g->products[at];
  if (!is_same(x->is, p))
    return fault("a warpgroup's threads begin different products");
  if (p.a_registers)
    x->a_pieces[(size_t)(t % GROUP)].assign(p.a_registers, p.a_registers + 4);
  result *r = result_of(s, p.d, p.columns);
  if (r->columns != p.columns) return fault("results overlap");
  r->products++;
  s->given.push_back({ number, p.a_registers, p.d });
}
void mrt_emulate_wgmma_fence(void) { self()->fenced = true; }
void mrt_emulate_wgmma_commit(void) {
  thread *s = self();
  s->products.push_back(s->given);
  s->given.clear();
}
void mrt_emulate_wgmma_wait(int newest) {
  mrt_emulate_exchange("wgmma.wait_group", ~0u, 0, ~0, __FILE__, __LINE__);
  thread *s = self();
  s->fenced = false;
  for (; s->products.size() > (size_t)newest; s->products.pop_front())
    for (const part &p : s->products.front())
      if (!faulty) end(s, p);
}
