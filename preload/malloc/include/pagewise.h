/*
 * pagewise: a memory allocator for C11 and later and C++11 and later.
 *
 * Two libraries have this interface:
 *
 *   libpagewise            (pkg-config pagewise) also replaces malloc, free, operator new and the rest of
 *                          their families in the whole program; a program need not call anything here.
 *   libpagewise_prefixed   (pkg-config pagewise-prefixed) leaves those functions to the C library; only
 *                          blocks allocated by the functions below come from pagewise.
 *
 * Any thread may call any function at any time. A block must be freed by the library that allocated it.
 * The environment variables PAGEWISE_... tune the allocator: see pagewise(7).
 *
 * MIT or Apache-2.0, at your option.
 */
#ifndef PAGEWISE_H
#define PAGEWISE_H

#include <stddef.h>
#include <stdint.h>

/* The version of this header; pagewise_version() returns the version of the loaded library. */
#define PAGEWISE_VERSION "0.1.0"

#if defined(__GNUC__)
#define PAGEWISE_BLOCK(...) __attribute__((malloc, warn_unused_result, alloc_size(__VA_ARGS__)))
#define PAGEWISE_RESIZED(...) __attribute__((warn_unused_result, alloc_size(__VA_ARGS__)))
#else
#define PAGEWISE_BLOCK(...)
#define PAGEWISE_RESIZED(...)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Blocks -------------------------------------------------------------------------------------- */

/* Allocates a block of size bytes, aligned to 16. Returns NULL and sets errno to ENOMEM if there is no
   memory. Size 0 gives a block that must be freed like any other. */
void *pagewise_malloc(size_t size) PAGEWISE_BLOCK(1);

/* As pagewise_malloc(count * size), but zeroed; returns NULL if the product overflows. */
void *pagewise_calloc(size_t count, size_t size) PAGEWISE_BLOCK(1, 2);

/* Changes the size of a block and keeps its contents up to the smaller size. Returns NULL and leaves the
   block unchanged if there is no memory. If block is NULL, does the same as pagewise_malloc. Size 0 frees
   the block and returns NULL, as in GNU's library. */
void *pagewise_realloc(void *block, size_t size) PAGEWISE_RESIZED(2);

/* As pagewise_realloc(block, count * size); returns NULL if the product overflows. */
void *pagewise_reallocarray(void *block, size_t count, size_t size) PAGEWISE_RESIZED(2, 3);

/* Allocates a block aligned to alignment, which must be a power of two: otherwise returns NULL and sets
   errno to EINVAL. */
void *pagewise_aligned_alloc(size_t alignment, size_t size) PAGEWISE_BLOCK(2);

/* The same, with the block stored in *out. Returns 0; or EINVAL or ENOMEM, without changing *out. Never
   changes errno. The alignment must also be a multiple of sizeof(void *). */
int pagewise_posix_memalign(void **out, size_t alignment, size_t size);

/* Frees a block; does nothing if it is NULL. Preserves errno. */
void pagewise_free(void *block);

/* The same, for callers that know the requested size. In hardened mode a wrong size stops the process. */
void pagewise_free_sized(void *block, size_t size);
void pagewise_free_aligned_sized(void *block, size_t alignment, size_t size);

/* Returns the number of bytes of a block, all of which may be used; 0 for NULL. */
size_t pagewise_malloc_usable_size(const void *block);

/* ---- Returning memory ---------------------------------------------------------------------------- */

/* Gives all free memory back to the system, as malloc_trim(0); returns the number of bytes. */
uint64_t pagewise_purge(void);

/* Gives back the memory that is due; for an event loop. Returns the milliseconds until the next call is
   worthwhile, or -1 if nothing will become due unless the program frees more. */
long pagewise_maintain(void);

/* Puts back the free blocks on the calling thread's lists; for a thread that will not allocate for a while,
   such as a worker before it waits for work. */
void pagewise_thread_idle(void);

/* ---- Statistics ---------------------------------------------------------------------------------- */

/* In bytes unless stated otherwise. Later versions add fields at the end. */
struct pagewise_stats {
    size_t blocks;    /* blocks in use (number) */
    size_t live;      /* bytes of the blocks in use */
    size_t quick;     /* bytes of free blocks on threads' quick lists */
    size_t held;      /* address space in use: blocks, free memory, bookkeeping */
    size_t peak_held; /* sum of the high-water marks of held, of each heap and of the mappings */
    size_t resident;  /* resident memory of the heaps */
    uint64_t purged;  /* given back to the system since the start */
    size_t mapped;    /* bytes of blocks that are mappings of their own */
    size_t mappings;  /* blocks that are mappings of their own (number) */
    size_t heaps;     /* heaps opened (number) */
    size_t threads;   /* sets of quick lists (number) */
};

/* Fills the first size bytes of *stats: pass sizeof *stats. Fields that the library does not know become 0.
   Takes some milliseconds for each GiB held. */
void pagewise_get_stats(struct pagewise_stats *stats, size_t size);

/* Statistics of one size class, over all heaps. */
struct pagewise_class {
    size_t size;   /* size of its blocks in bytes */
    size_t blocks; /* blocks in use (number) */
    size_t quick;  /* free blocks on quick lists (number) */
    size_t pages;  /* pages that serve it (number) */
    size_t held;   /* bytes of those pages */
};

/* Calls visit with each size class in use, smallest first, and with context. visit may allocate; it must not
   throw. */
void pagewise_for_each_class(void (*visit)(const struct pagewise_class *, void *), void *context);

/* Writes both statistics to standard error, as malloc_stats(). Does not allocate. */
void pagewise_show_stats(void);

/* ---- Heap profiles ------------------------------------------------------------------------------- */

/* A sampling heap profiler (docs/profiler.md). Each function returns 0 or an error number as in errno. */

/* Starts a profile with one sample in every bytes_per_sample bytes on average; 524288 is a good rate. EINVAL:
   the rate is not from 1 to 1 GiB, or there is a profile already. EAGAIN: the process is forking, or a signal
   handler interrupted the profiler. ENOMEM: there is not enough memory. */
int pagewise_profile_start(size_t bytes_per_sample);

/* Stops the profile, which can still be written. */
int pagewise_profile_stop(void);

/* Writes the profile to a file for pprof. The file is complete or does not appear. */
int pagewise_profile_dump(const char *path);

/* ---- Version ------------------------------------------------------------------------------------- */

/* Returns the version of the library, such as "0.1.0". */
const char *pagewise_version(void);

#ifdef __cplusplus
}

#include <new>
#include <type_traits>

namespace pagewise {

/* An allocator for containers: std::vector<int, pagewise::allocator<int>>. */
template <typename T>
struct allocator {
    typedef T value_type;
    typedef std::true_type is_always_equal;
    typedef std::true_type propagate_on_container_move_assignment;

    allocator() noexcept {}
    template <typename U>
    allocator(const allocator<U> &) noexcept {}

    T *allocate(std::size_t count) {
        if (count > static_cast<std::size_t>(-1) / sizeof(T)) {
            fail();
        }
        void *block = alignof(T) <= 16 ? pagewise_malloc(count * sizeof(T))
                                       : pagewise_aligned_alloc(alignof(T), count * sizeof(T));
        if (!block) {
            fail();
        }
        return static_cast<T *>(block);
    }

    void deallocate(T *block, std::size_t count) noexcept {
        pagewise_free_sized(block, count * sizeof(T));
    }

private:
    [[noreturn]] static void fail() {
#if defined(__cpp_exceptions) || defined(__EXCEPTIONS) || defined(_CPPUNWIND)
        throw std::bad_alloc();
#else
        __builtin_abort();
#endif
    }
};

template <typename T, typename U>
bool operator==(const allocator<T> &, const allocator<U> &) noexcept { return true; }
template <typename T, typename U>
bool operator!=(const allocator<T> &, const allocator<U> &) noexcept { return false; }

} /* namespace pagewise */
#endif

#endif /* PAGEWISE_H */
