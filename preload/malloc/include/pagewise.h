/*
 * pagewise: a memory allocator, for C11 and C++11 and later.
 *
 * Two libraries have this interface:
 *
 *   libpagewise            (pkg-config pagewise) also takes the place of malloc, free, operator new and
 *                          the rest of their families in the whole program: nothing need be called here.
 *   libpagewise_prefixed   (pkg-config pagewise-prefixed) leaves those to the C library: only what is
 *                          allocated here comes from pagewise.
 *
 * Every function may be called by any thread at any time. A block of one of these libraries is freed by
 * the same library. The environment's variables PAGEWISE_... tune the allocator: see pagewise(7).
 *
 * MIT or Apache-2.0, at your option.
 */
#ifndef PAGEWISE_H
#define PAGEWISE_H

#include <stddef.h>
#include <stdint.h>

/* The version that this header belongs to; pagewise_version() is that of the library in the process. */
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

/* A block of size bytes, aligned to 16. NULL, and errno = ENOMEM, where there is no memory. A block of
   0 bytes is a block like others. */
void *pagewise_malloc(size_t size) PAGEWISE_BLOCK(1);

/* As pagewise_malloc(count * size), but zeros; NULL where the product overflows. */
void *pagewise_calloc(size_t count, size_t size) PAGEWISE_BLOCK(1, 2);

/* The block with another size; its bytes stay as far as both sizes go. NULL where there is no memory, and the
   block stays as it is. Without a block as pagewise_malloc. Size 0 frees the block and gives NULL, as in GNU's
   library. */
void *pagewise_realloc(void *block, size_t size) PAGEWISE_RESIZED(2);

/* As pagewise_realloc(block, count * size); NULL where the product overflows. */
void *pagewise_reallocarray(void *block, size_t count, size_t size) PAGEWISE_RESIZED(2, 3);

/* A block at a multiple of alignment, a power of two: else NULL, and errno = EINVAL. */
void *pagewise_aligned_alloc(size_t alignment, size_t size) PAGEWISE_BLOCK(2);

/* The same into *out. 0; or EINVAL or ENOMEM, and *out and errno stay as they are. The alignment must be a
   multiple of sizeof(void *), too. */
int pagewise_posix_memalign(void **out, size_t alignment, size_t size);

/* Frees a block; NULL is none. Keeps errno. */
void pagewise_free(void *block);

/* The same for who remembers what was asked for. In hardened mode another size stops the process. */
void pagewise_free_sized(void *block, size_t size);
void pagewise_free_aligned_sized(void *block, size_t alignment, size_t size);

/* Bytes of a block, all of which may be used; 0 of NULL. */
size_t pagewise_malloc_usable_size(const void *block);

/* ---- Memory that goes back ----------------------------------------------------------------------- */

/* Gives all free memory back to the system, as malloc_trim(0); returns its bytes. */
uint64_t pagewise_purge(void);

/* For an event loop: gives back what is due. Milliseconds until it is worth calling this again; -1 if
   nothing is to go back unless the program frees more. */
long pagewise_maintain(void);

/* For a thread that will not allocate for a while, as a worker before it waits for work: puts back the free
   blocks that it keeps at hand. */
void pagewise_thread_idle(void);

/* ---- Statistics ---------------------------------------------------------------------------------- */

/* Bytes, unless said otherwise. Later versions add fields at the end. */
struct pagewise_stats {
    size_t blocks;    /* blocks in use (number) */
    size_t live;      /* bytes of the blocks in use */
    size_t quick;     /* free blocks that threads keep at hand */
    size_t held;      /* address space in use: blocks, free memory, bookkeeping */
    size_t peak_held; /* the most that each heap and mappings held, summed up */
    size_t resident;  /* the heaps' memory that is resident */
    uint64_t purged;  /* given back to the system since the beginning */
    size_t mapped;    /* in mappings of their own */
    size_t mappings;  /* mappings of their own (number) */
    size_t heaps;     /* heaps opened (number) */
    size_t threads;   /* sets of lists that threads keep blocks on (number) */
};

/* Fills the first size bytes: pass sizeof *stats. What the library does not know becomes 0. Takes some
   milliseconds for each GiB held. */
void pagewise_get_stats(struct pagewise_stats *stats, size_t size);

/* What there is of one size class, in all heaps. */
struct pagewise_class {
    size_t size;   /* of its blocks, bytes */
    size_t blocks; /* in use (number) */
    size_t quick;  /* free, kept at hand by threads (number) */
    size_t pages;  /* that serve it (number) */
    size_t held;   /* bytes of those pages */
};

/* Calls visit with each size class in use, the smallest first, and with context. It may allocate; it must not
   throw. */
void pagewise_for_each_class(void (*visit)(const struct pagewise_class *, void *), void *context);

/* Writes both to standard error, as malloc_stats(). Allocates nothing. */
void pagewise_show_stats(void);

/* ---- Who allocated it ---------------------------------------------------------------------------- */

/* A heap profile, by samples (docs/profiler.md): 0, or a number as in errno. */

/* Begins one, with a sample in so many bytes on average; 524288 is a good rate. EINVAL: not from 1 to 1 GiB, or
   there is one already. EAGAIN: at a moment at which the process forks. ENOMEM. */
int pagewise_profile_start(size_t bytes_per_sample);

/* Ends it. It can be written then as it was. */
int pagewise_profile_stop(void);

/* Writes it to a file for pprof, which is whole or not there. */
int pagewise_profile_dump(const char *path);

/* ---- Version ------------------------------------------------------------------------------------- */

/* The version of the library: "0.1.0". */
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
