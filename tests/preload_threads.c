// Threads exchange blocks of all sizes through shared slots, each block filled with its own mark,
// and exit; meanwhile the process forks, the children allocate, and `dlopen` is called with a flag
// that the library drops. Exits with 0 if every block kept its contents and the library was opened.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 20000, PLACES = 256 };

struct block {
  size_t size;
  unsigned char mark;
  unsigned char bytes[];
};

static _Atomic(struct block *) places[PLACES];
static atomic_int failures;

static struct block *make(uint64_t *random) {
  *random = *random * 6364136223846793005u + 1;
  size_t size = (*random >> 40) % ((*random >> 33) % 50 == 0 ? 200000 : 1000);
  struct block *block = malloc(sizeof *block + size);
  if (!block)
    abort();
  block->size = size;
  block->mark = (unsigned char)(*random >> 56);
  memset(block->bytes, block->mark, size);
  return block;
}

static void check_and_free(struct block *block) {
  if (!block)
    return;
  for (size_t index = 0; index < block->size; index++)
    if (block->bytes[index] != block->mark) {
      atomic_fetch_add(&failures, 1);
      break;
    }
  free(block);
}

static void *run(void *seed) {
  uint64_t random = (uintptr_t)seed;
  for (int round = 0; round < ROUNDS; round++) {
    struct block *block = make(&random);
    if (round % 7 == 0) {
      block = realloc(block, sizeof *block + 2 * block->size);
      memset(block->bytes, block->mark, 2 * block->size);
      block->size *= 2;
    }
    check_and_free(atomic_exchange(&places[(random >> 20) % PLACES], block));
  }
  return NULL;
}

int main(void) {
  for (int time = 0; time < 2; time++)
    if (!dlopen("libm.so.6", RTLD_NOW | RTLD_DEEPBIND))
      atomic_fetch_add(&failures, 1);
  for (int generation = 0; generation < 3; generation++) {
    pthread_t threads[THREADS];
    for (uintptr_t thread = 0; thread < THREADS; thread++)
      if (pthread_create(&threads[thread], NULL, run, (void *)(thread + 10 * generation + 1)))
        abort();
    pid_t child = fork();
    if (child == 0) {
      uint64_t random = 99;
      for (int round = 0; round < 1000; round++)
        check_and_free(make(&random));
      _exit(atomic_load(&failures) ? 1 : 0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status)
      atomic_fetch_add(&failures, 1);
    for (int thread = 0; thread < THREADS; thread++)
      pthread_join(threads[thread], NULL);
  }
  for (int place = 0; place < PLACES; place++)
    check_and_free(places[place]);
  printf("%d blocks were not what was written\n", failures);
  return failures ? 1 : 0;
}
