//! Tests `libpagewise.so` preloaded into real programs and into this one.
//!
//! A test that needs the library preloaded runs this program again with it. This program's own
//! global allocator is Pagewise, so the process then has two copies: one serves Rust code, the
//! other C code.

#![cfg(target_os = "linux")]

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::{env, io, ptr};

use pagewise::global::Pagewise;

#[global_allocator]
static OURS: Pagewise = Pagewise::new();

/// The library, as developers build it.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| built("dev", "debug"))
}

/// Builds the library in a profile, since cargo builds no cdylib for its package's tests. Returns its
/// path, in the folder that cargo has for the profile.
fn built(profile: &str, folder: &str) -> PathBuf {
    let program = env::current_exe().expect("this program has a path");
    // …/debug/deps/preload-0123
    let target = program.ancestors().nth(3).expect("it lies in a target directory");
    let built = Command::new(env::var_os("CARGO").expect("cargo runs the tests"))
        .args(["build", "--quiet", "--profile", profile, "--manifest-path"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .status();
    assert!(built.is_ok_and(|status| status.success()), "the library can be built");
    target.join(folder).join("libpagewise.so")
}

fn run(command: &mut Command, preloaded: bool) -> Output {
    if preloaded {
        command.env("LD_PRELOAD", library()).env("PAGEWISE_SHOW_STATS", "1");
    }
    command.output().expect("the program can be run")
}

/// Returns whether the shell finds a program.
fn is_installed(program: &str) -> bool {
    let find = format!("command -v {program}");
    Command::new("sh").args(["-c", &find]).stdout(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// A Rust program whose threads pass strings to each other; scripts get its path as `$THREADS`.
const THREADS: &str = r#"
use std::collections::BTreeMap;
use std::sync::mpsc::sync_channel;
fn main() {
    let ends: Vec<_> = (1..5usize)
        .map(|seed| {
            let (sender, receiver) = sync_channel::<Vec<String>>(4);
            std::thread::spawn(move || {
                for round in 0..40 {
                    let strings = (0..300).map(|n| "x".repeat(n * seed * 7 % 400) + &(round * n).to_string());
                    sender.send(strings.collect()).expect("the other thread lives");
                }
            });
            std::thread::spawn(move || {
                let mut counts: BTreeMap<String, usize> = BTreeMap::new();
                receiver.into_iter().flatten().for_each(|string| *counts.entry(string).or_default() += 1);
                counts.into_iter().map(|(string, count)| string.len() * count).sum::<usize>()
            })
        })
        .collect();
    for end in ends {
        println!("{}", end.join().expect("it ends"));
    }
}
"#;

/// Runs a script with and without the library, and checks that the output is the same.
fn same_output(program: &str, script: &str) {
    if !is_installed(program) {
        println!("{program} is not installed");
        return;
    }
    let run = |preloaded| {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let mut shell = Command::new("sh");
        run(shell.args(["-c", script]).env("THREADS", THREADS).current_dir(&folder), preloaded)
    };
    let (plain, preloaded) = (run(false), run(true));
    assert!(plain.status.success(), "{}", String::from_utf8_lossy(&plain.stderr));
    let said = String::from_utf8_lossy(&preloaded.stderr);
    assert!(preloaded.status.success(), "{program}: {said}");
    assert!(!said.contains("cannot be preloaded"), "{program}: {said}");
    assert!(plain.stdout == preloaded.stdout, "{program} wrote something else");
}

macro_rules! programs {
    ($($name:ident: $program:literal, $script:literal;)*) => {$(
        #[test]
        fn $name() {
            same_output($program, $script);
        }
    )*};
}

programs! {
    sort: "sort", "seq 100000 | sort -R --random-source=/dev/zero | sort -n | tail -3";
    awk: "awk", "awk 'BEGIN { for (i = 0; i < 200000; i++) a[i % 5000] = a[i % 5000] i; print length(a[7]) }'";
    perl: "perl", "perl -e 'my %h; $h{$_ % 7001} .= \"x$_\" for 1..200000; print length($h{9}), \"\\n\"'";
    python: "python3", "python3 -c 'import json; d = {str(i): [i] * 5 for i in range(50000)}; print(len(json.loads(json.dumps(d))))'";
    python_threads: "python3", "python3 -c '
from concurrent.futures import ThreadPoolExecutor
def work(n): return sum(len(str(i) * 3) for i in range(n))
with ThreadPoolExecutor(8) as pool: print(list(pool.map(work, range(1000, 1040))))'";
    git: "git", "git init -q . && seq 20000 > a && git add a && git -c user.name=a -c user.email=a@b commit -qm a --date=2020-01-01T00:00:00Z && seq 7 20007 > a && git diff --stat";
    sqlite: "sqlite3", "sqlite3 :memory: 'create table t(a, b); with recursive n(x) as (select 1 union all select x + 1 from n where x < 50000) insert into t select x, hex(x * 7) from n; create index i on t(b); select count(*), max(b) from t;'";
    ghostscript: "gs", "printf '%%!PS\n/Times-Roman findfont 20 scalefont setfont 1 1 80 { 9 mul 72 exch moveto (pagewise) show } for showpage\n' | gs -q -dNOPAUSE -dBATCH -sDEVICE=ppmraw -r72 -sOutputFile=- - | cksum";
    compiler: "g++", "printf '#include <map>\n#include <string>\nint main() { std::map<std::string, int> m; m[\"a\"] = 1; return m.size() - 1; }' > a.cpp && g++ -O1 -c a.cpp -o a.o && cksum a.o";
    rust_threads: "rustc", "printf '%s' \"$THREADS\" > threads.rs && rustc -O threads.rs -o threads && ./threads";
    cargo: "cargo", "mkdir src && printf '%s' \"$THREADS\" > src/main.rs && printf '[package]\nname = \"a\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n' > Cargo.toml && CARGO_TARGET_DIR=built cargo build -q --offline && built/debug/a && cargo metadata --offline --format-version 1 --no-deps | grep -o '\"name\":\"a\"'";
    // PHP opens its extensions with RTLD_DEEPBIND, and also asks the C library for its own memory.
    php: "php", "USE_ZEND_ALLOC=0 php -r '$a = []; for ($i = 0; $i < 50000; $i++) $a[$i % 777] = ($a[$i % 777] ?? \"\") . $i; ksort($a); echo strlen(json_encode($a)), extension_loaded(\"ctype\");'";
    redis: "redis-benchmark", "redis-server --port 0 --unixsocket r.sock --save '' --dir . >log & server=$!
until redis-cli -s r.sock ping >/dev/null 2>&1; do kill -0 $server || exit 1; sleep 0.05; done
redis-benchmark -s r.sock -q -c 20 -n 5000 -r 3000 -d 200 -t set,get,incr,lpush,sadd,hset,zadd,lrange_100 >/dev/null
redis-cli -s r.sock flushall
seq 20000 | awk '{ print \"APPEND key\" $1 % 5000 \" value\" $1 * 7; print \"ZADD sorted \" $1 % 777 \" member\" $1 }' | redis-cli -s r.sock --pipe | grep errors
redis-cli -s r.sock get key777
redis-cli -s r.sock zrange sorted 5000 5010
redis-cli -s r.sock bgsave
while redis-cli -s r.sock info persistence | grep -q 'bgsave_in_progress:1'; do sleep 0.05; done
redis-cli -s r.sock info persistence | grep 'last_bgsave_status'
redis-cli -s r.sock shutdown nosave; wait $server";
    names_of_gnu: "gcc", r#"cat >a.c <<'END'
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t), *__libc_valloc(size_t), __libc_free(void *);
int main() {
    free(__libc_malloc(100)), free(__libc_calloc(100, 3));
    free(__libc_memalign(64, 100)), free(__libc_valloc(9));
    free(__libc_realloc(malloc(10), 9000));
    __libc_free(malloc(100)), __libc_free(realloc(__libc_malloc(70), 7));
    char *p = malloc(50000000), *text;
    memset(p, 1, 50000000);
    struct mallinfo info = mallinfo();
    size_t length;
    FILE *file = open_memstream(&text, &length);
    int done = malloc_info(0, file);
    fclose(file);
    printf("%d %d %d", info.hblks, info.hblkhd >= 50000000, done);
    printf("%d %d\n", malloc_info(1, stdout) != 0, strstr(text, "</malloc>") != 0);
    char *mapped = strstr(text, "<total type=\"mmap\" count=\"1\" size=\"50");
    printf("%d\n", mapped != 0);
    return 0;
}
END
gcc -w a.c -o a && ./a"#;
    // With guarded blocks there is a handler before the program's.
    faults_that_a_program_handles: "gcc", r#"cat >a.c <<'END'
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static sigjmp_buf place;
static jmp_buf same_mask;
static void leave(int signal) { siglongjmp(place, 1); }
static void leave_unmasked(int signal) { longjmp(same_mask, 1); }
static void use(void) { for (int i = 0; i < 20000; i++) free(malloc(i % 300)); }
static void handle(void (*handler)(int), int flags) {
    struct sigaction action = {0};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(SIGSEGV, &action, 0);
    use();
}
static int sent(int signal, void (*handler)(int)) {
    int status;
    if (fork() == 0) {
        handle(handler, 0);
        kill(getpid(), signal);
        kill(getpid(), signal);
        _exit(7);
    }
    wait(&status);
    return status & ~0x80;
}
int main() {
    printf("%x %x\n", sent(SIGSEGV, SIG_DFL), sent(SIGBUS, SIG_DFL));
    printf("%x\n", sent(SIGSEGV, SIG_IGN));
    handle(leave, 0);
    int faults = 0;
    while (faults < 20)
        if (sigsetjmp(place, 1)) faults++, use();
        else *(volatile int *)16 = 1;
    handle(leave_unmasked, SA_NODEFER);
    while (faults < 40)
        if (setjmp(same_mask)) faults++, use();
        else *(volatile int *)16 = 1;
    printf("%d\n", faults);
    return 0;
}
END
gcc -w a.c -o a && PAGEWISE_GUARDED=1 ./a"#;
    // As Python's module faulthandler does: a handler installed between two of ours is disabled, or
    // puts back the handler before it, and sends the signal again. The first calls the handler that
    // it replaced.
    faults_after_a_handler_is_put_back: "gcc", r#"cat >a.c <<'END'
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static struct sigaction before;
static void use(void) { for (int i = 0; i < 2000; i++) free(malloc(i % 300)); }
static void oldest(int signal) { _exit(write(1, "oldest\n", 7)); }
static void pass_on(int signal, siginfo_t *info, void *context) {
    write(1, "passed on\n", 10);
    if (before.sa_flags & SA_SIGINFO) before.sa_sigaction(signal, info, context);
    else before.sa_handler(signal);
}
static void put_back(int signal, siginfo_t *info, void *context) {
    write(1, "put back\n", 9);
    sigaction(signal, &before, 0);
    raise(signal);
}
static void handle(void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction action = {0};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, &before);
    use();
}
static void run(int fault, int which) {
    int status;
    if (fork() == 0) {
        alarm(10);
        if (which == 0) signal(SIGSEGV, oldest), use();
        handle(which == 0 ? pass_on : put_back);
        if (which == 2) sigaction(SIGSEGV, &before, 0);
        if (fault) *(volatile int *)16 = 1;
        raise(SIGSEGV);
        _exit(99);
    }
    wait(&status);
    dprintf(1, "%d %d: %x\n", fault, which, status & ~0x80);
    if (status == SIGALRM) exit(1);
}
int main() {
    for (int fault = 0; fault < 2; fault++)
        for (int which = 0; which < 3; which++) run(fault, which);
    return 0;
}
END
gcc -w a.c -o a && PAGEWISE_GUARDED=1 ./a | head -c 1000"#;
    sandboxes_that_kill: "gcc", r#"cat >a.c <<'END'
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define KILL(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
static void enter(int by_prctl) {
    struct sock_filter calls[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        KILL(SYS_mincore), KILL(440 /* process_madvise */), KILL(SYS_msync),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof calls / sizeof *calls, calls};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (by_prctl ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter))
        exit(2);
}
static char *blocks[40000];
static void use(size_t size, int n) {
    for (int i = 0; i < n; i++) memset(blocks[i] = malloc(size), 1, size);
    for (int i = 0; i < n; i++) if (i % 100) free(blocks[i]);
}
int main() {
    for (int by_prctl = 0; by_prctl < 2; by_prctl++) {
        int status;
        if (fork() == 0) {
            alarm(60);
            use(1000, 40000), use(50000, 500), use(20 << 20, 2);
            enter(by_prctl);
            for (int i = 0; i < 4; i++) usleep(400000), use(1000, 20000), use(50000, 400), use(20 << 20, 3);
            void *volatile zeros = calloc(3, 30 << 20);
            free(zeros);
            _exit(0);
        }
        wait(&status);
        printf("%x\n", status);
    }
    printf("%d\n", prctl(-1, 0, 0, 0, 0));
    return 0;
}
END
gcc -w a.c -o a && ./a"#;
    // The C library frees memory of an ended thread under a lock that the creation of a thread takes.
    background_thread_wanted_by_threads_that_end: "gcc", r#"cat >a.c <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static pthread_barrier_t all;
static int n;
static void *work(void *unused) {
    char *blocks[300];
    for (int i = 0; i < 300; i++) memset(blocks[i] = malloc(1000 + i * 40), 1, 1000);
    pthread_barrier_wait(&all);
    for (int i = 0; i < n; i++) free(blocks[i]);
    return 0;
}
static void run(void) {
    pthread_t thread;
    alarm(20);
    pthread_barrier_init(&all, 0, 12);
    for (int i = 0; i < 36; i++) {
        pthread_create(&thread, 0, work, 0);
        pthread_detach(thread);
        if (i % 12 == 11) usleep(20000);
    }
    _exit(0);
}
int main() {
    int hung = 0, status;
    for (int i = 0; i < 20; i++) {
        n = i % 4 * 10 + 1;
        if (fork() == 0) run();
        wait(&status);
        hung += status != 0;
    }
    printf("%d\n", hung);
    return 0;
}
END
gcc -w a.c -o a -lpthread && PAGEWISE_BACKGROUND=1 ./a"#;
    // The C library frees what it kept of exit functions under a lock that registering one takes.
    background_thread_wanted_at_exit: "gcc", r#"cat >a.c <<'END'
#include <stdlib.h>
#include <unistd.h>
static void nothing(void) {}
static void use(void) {
    void *blocks[4];
    alarm(20);
    for (int i = 0; i < 4; i++) blocks[i] = malloc(40000);
    for (int i = 0; i < 4; i++) free(blocks[i]);
    write(1, "exits\n", 6);
}
int main() {
    for (int i = 0; i < 1000; i++) atexit(nothing);
    atexit(use);
    return 0;
}
END
gcc -w a.c -o a && PAGEWISE_BACKGROUND=1 PAGEWISE_QUICK_BLOCKS=2 ./a; echo $?"#;
    // Of a single thread, which takes no locks for it, and then of one among others.
    forks_of_a_single_thread: "gcc", r#"cat >a.c <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static char *blocks[300];
static volatile int stop;
static void handler(void) { free(blocks[7]), blocks[7] = malloc(700); }
static int use(void) {
    for (int i = 0; i < 300; i++) free(blocks[i]), blocks[i] = malloc(i * i % 40000), memset(blocks[i], i, i * i % 40000);
    return blocks[299][0] == (char)299;
}
static void *serve(void *unused) {
    while (!stop) { char *some[50]; for (int i = 0; i < 50; i++) some[i] = malloc(i * 90); for (int i = 0; i < 50; i++) free(some[i]); }
    return 0;
}
static int child(int depth, int threads) {
    int status;
    pthread_t thread[2];
    for (int t = 0; t < threads; t++) pthread_create(&thread[t], 0, serve, 0);
    if (fork() == 0) _exit(use() && (depth == 0 || child(depth - 1, threads)) ? 0 : 1);
    wait(&status);
    stop = 1;
    for (int t = 0; t < threads; t++) pthread_join(thread[t], 0);
    stop = 0;
    return status == 0 && use();
}
int main() {
    pthread_atfork(handler, handler, handler);
    use();
    for (int i = 0; i < 30; i++) printf("%d%d%d ", child(3, 0), child(2, 2), child(0, 0));
    return 0;
}
END
gcc -w a.c -o a -lpthread && ./a"#;
    handler_that_throws: "g++", r#"cat >a.cpp <<'END'
#include <cstdio>
#include <new>
int calls;
void handler() { if (++calls % 3 == 0) throw std::bad_alloc(); }
int main() {
    std::set_new_handler(handler);
    volatile size_t n = (size_t)1 << 55;
    char *p = new (std::nothrow) char[n];
    void *q = operator new(n, std::align_val_t(64), std::nothrow);
    printf("%d %d %d\n", p == nullptr, q == nullptr, calls);
    try { delete[] new char[n]; } catch (std::bad_alloc &) { printf("caught\n"); }
    delete[] new (std::nothrow) char[100];
}
END
g++ -std=c++17 -w -O0 a.cpp -o a && ./a"#;
    own_new_and_delete: "g++", r#"cat >a.cpp <<'END'
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>
static int news, deletes;
void *operator new(size_t n) {
    news++;
    char *p = (char *)malloc(n + 16);
    if (!p) throw std::bad_alloc();
    return p + 16;
}
void operator delete(void *q) noexcept {
    deletes++;
    if (q) free((char *)q - 16);
}
struct thing { long words[5]; };
struct alignas(64) wide { char c; };
int main() {
    thing *things[1000];
    for (auto &t : things) t = new thing;
    for (int i = 0; i < 1000; i += 2) delete things[i];
    for (int i = 0; i < 1000; i += 2) things[i] = new thing;
    for (auto &t : things) delete t;
    delete new (std::nothrow) thing;
    delete[] new thing[3];
    delete[] new (std::nothrow) thing[3];
    ::operator delete(::operator new(40), (size_t)40);
    ::operator delete(::operator new(40), std::nothrow);
    ::operator delete[](::operator new[](40), (size_t)40);
    ::operator delete[](::operator new[](40), std::nothrow);
    { std::vector<int> v(1000); v.resize(5000); }
    volatile size_t n = (size_t)1 << 55;
    printf("%d ", new (std::nothrow) char[n] == nullptr);
    delete new wide;
    delete[] new wide[3];
    printf("%d %d\n", news, deletes);
}
END
g++ -std=c++17 -w -O0 a.cpp -o a && ./a"#;
    own_aligned_new_and_delete: "g++", r#"cat >a.cpp <<'END'
#include <cstdio>
#include <cstdlib>
#include <new>
static int news, deletes;
void *operator new(size_t n, std::align_val_t a) {
    news++;
    return (char *)aligned_alloc((size_t)a, n + (size_t)a) + (size_t)a;
}
void operator delete(void *q, std::align_val_t a) noexcept {
    deletes++;
    free((char *)q - (size_t)a);
}
struct alignas(64) wide { char c; };
int main() {
    for (int i = 0; i < 100; i++) {
        delete new wide;
        delete new (std::nothrow) wide;
        delete[] new wide[3];
        delete[] new (std::nothrow) wide[3];
    }
    delete[] new char[100];
    delete new (std::nothrow) int;
    printf("%d %d\n", news, deletes);
}
END
g++ -std=c++17 -w -O0 a.cpp -o a && ./a"#;
    own_malloc_and_reallocarray: "gcc", r#"cat >a.c <<'END'
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static _Alignas(16) char memory[1 << 22];
static size_t used;
void *malloc(size_t n) {
    size_t at = (used + 31) & ~(size_t)15;
    if (n > sizeof memory - at) return 0;
    used = at + n;
    *(size_t *)(memory + at - 16) = n;
    return memory + at;
}
void free(void *p) {}
void *calloc(size_t n, size_t m) { return malloc(n * m); }
void *realloc(void *p, size_t n) {
    void *q = malloc(n);
    if (p && q) memcpy(q, p, *(size_t *)((char *)p - 16) < n ? *(size_t *)((char *)p - 16) : n);
    return q;
}
int main() {
    char *p = malloc(16);
    strcpy(p, "contents");
    p = reallocarray(p, 400, 4);
    errno = 0;
    void *none = reallocarray(p, SIZE_MAX / 2, 3);
    printf("%s %d %d\n", p, none == 0, errno == ENOMEM);
    free(reallocarray(0, 10, 10));
    return 0;
}
END
gcc -w -O0 a.c -o a && ./a"#;
    an_extension_in_cplusplus: "g++", r#"cat >a.cpp <<'END'
#include <cstdio>
#include <new>
static int calls;
static void handler() { if (++calls == 3) std::set_new_handler(nullptr); }
static void thrower() { calls++; throw std::bad_alloc(); }
extern "C" void extension() {
    volatile size_t n = (size_t)1 << 55;
    std::set_new_handler(handler);
    try { delete[] new char[n]; } catch (std::bad_alloc &) { printf("caught after %d\n", calls); }
    std::set_new_handler(thrower);
    char *p = new (std::nothrow) char[n];
    void *q = operator new(n, std::align_val_t(64), std::nothrow);
    printf("%d %d %d\n", p == nullptr, q == nullptr, calls);
}
END
cat >b.c <<'END'
#include <dlfcn.h>
int main() {
    void *opened = dlopen("./a.so", RTLD_NOW | RTLD_LOCAL);
    if (!opened) return 1;
    ((void (*)(void))dlsym(opened, "extension"))();
    return 0;
}
END
g++ -std=c++17 -w -O0 -fPIC -shared a.cpp -o a.so && gcc b.c -o b -ldl && ./b"#;
    cplusplus: "g++", "printf '#include <iostream>\n#include <new>\n#include <string>\n#include <thread>\n#include <vector>\nstruct alignas(256) wide { char c; };\nint main() { std::vector<std::thread> threads; long sum[4]; for (int t = 0; t < 4; t++) threads.emplace_back([&sum, t] { std::vector<std::string> v; for (int i = 0; i < 50000; i++) v.push_back(std::string(i %% 90, 120)); sum[t] = v[77].size(); }); for (auto &t : threads) t.join(); wide *w = new wide[3]; std::cout << sum[3] << (size_t)w %% 256; delete[] w; try { volatile size_t n = (size_t)1 << 55; delete[] new char[n]; } catch (std::bad_alloc &) { std::cout << \"caught\"; } std::cout << (new (std::nothrow) char[(size_t)1 << 55] == nullptr); }' > a.cpp && g++ -std=c++17 -w -O0 a.cpp -o a -lpthread && ./a";
}

/// Without the standard library, which release builds do without, exceptions pass through
/// `operator new`.
#[test]
#[cfg(all(target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn the_release_library_has_no_standard_library() {
    let library = built("release", "release");
    let bytes = std::fs::read(&library).expect("it is built");
    let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("PAGEWISE_HARDENED"), "its texts are in it");
    assert!(!has("RUST_BACKTRACE"), "the standard library would read it");
    if !is_installed("g++") {
        return println!("g++ is not installed");
    }
    let script = r#"cat >a.cpp <<'END'
#include <cstdio>
#include <cstdlib>
#include <new>
struct tidy { ~tidy() { printf("tidied\n"); } };
static void thrower() { throw 7; }
int main() {
    volatile size_t n = (size_t)1 << 55;
    try { tidy t; delete[] new char[n]; } catch (std::bad_alloc &) { printf("bad_alloc\n"); }
    try { tidy t; operator new(n, std::align_val_t(64)); } catch (std::bad_alloc &) { printf("bad_alloc\n"); }
    try { tidy t; operator new(1, std::align_val_t(3)); } catch (std::bad_alloc &) { printf("bad_alloc\n"); }
    std::set_new_handler(thrower);
    try { tidy t; operator new(n); } catch (int n) { printf("%d\n", n); }
    std::set_new_handler([] { printf("handled\n"); std::set_new_handler(nullptr); });
    try { operator new[](n); } catch (std::bad_alloc &) { printf("bad_alloc\n"); }
    printf("%d\n", getenv("LD_PRELOAD") != nullptr);
}
END
g++ -std=c++17 -w -O0 a.cpp -o a && LD_PRELOAD="$LIBRARY" ./a"#;
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).env("LIBRARY", &library).current_dir(&folder);
    let Output { status, stdout, stderr } = run(&mut shell, false);
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let expected = "tidied\nbad_alloc\n".repeat(3) + "tidied\n7\nhandled\nbad_alloc\n1\n";
    assert_eq!(String::from_utf8_lossy(&stdout), expected);
}

/// Runs one of this program's ignored tests with the library preloaded.
fn run_preloaded(test: &str) {
    let program = env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    let output = run(command.args([test, "--exact", "--ignored", "--nocapture"]), true);
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{test}: {out}{err}");
    assert_eq!(err.matches("blocks in use").count(), 2, "there are two copies: {err}");
}

#[test]
fn the_malloc_family_follows_its_rules() {
    run_preloaded("rules");
}

#[test]
fn two_copies_live_in_one_process() {
    run_preloaded("two_copies");
}

/// Settings of the allocator from one end of their ranges to the other. A line is set all at once.
const SETTINGS: [&str; 6] = [
    "PAGE_SIZE=16K SIZEMAP=page-fitting FFCROSSOVER=4K QUICK_BLOCKS=2 QUICK_BYTES=0 HUGE_PAGES=0",
    "PAGE_SIZE=1M SIZEMAP=linear FFCROSSOVER=32K FREETOL=1M QUICK_BLOCKS=1024 QUICK_BYTES=1G",
    "SIZEMAP=geometric=2.5 HEAPS_PER_CPU=1 MAPPING_FROM=64K PURGE_DELAY=0",
    "SIZEMAP=16,48,272,1024,4608 FREETOL=4K HEAPS_PER_CPU=16 MAPPING_FROM=1G HUGE_PAGES=1",
    "SIZEMAP=16 FFCROSSOVER=16 PURGE_DELAY=4294967295 HUGE_PAGES=system BACKGROUND=1",
    "PAGE_SIZE=32K SIZEMAP=page-fitting FFCROSSOVER=32K HARDENED=1",
];

/// The rules hold and both copies work with each of these settings; both read the same environment.
#[test]
fn settings_are_read_and_work() {
    for line in SETTINGS {
        for test in ["rules", "two_copies"] {
            let mut command = Command::new(env::current_exe().expect("this program has a path"));
            command
                .args([test, "--exact", "--ignored", "--nocapture"])
                .env("PAGEWISE_VERBOSE", "1");
            for setting in line.split(' ') {
                let (name, value) = setting.split_once('=').expect("a setting");
                command.env(format!("PAGEWISE_{name}"), value);
            }
            let output = run(&mut command, true);
            let (out, err) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success() && out.contains("1 passed"), "{line}: {out}{err}");
            assert!(!err.contains("ignored"), "{line}: {err}");
        }
    }
}

/// A preloaded library does not make a program load any other library.
#[test]
fn the_unwinder_is_linked_statically() {
    let archive = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    let is_known = archive.is_ok_and(|answer| answer.stdout.starts_with(b"/"));
    if !(cfg!(target_env = "gnu") && is_known) {
        println!("the linker has no archive of the unwinder");
        return;
    }
    let maps = run(Command::new("cat").arg("/proc/self/maps"), true);
    let maps = String::from_utf8_lossy(&maps.stdout);
    assert!(maps.contains("libpagewise.so") && !maps.contains("libgcc_s"), "{maps}");
}

/// The classes of `PAGEWISE_SIZEMAP` are in force: a block of 265 bytes takes 272 or 288.
#[test]
fn a_sizemap_of_the_environment_is_in_force() {
    let of = |sizemap: &str| {
        let mut command = Command::new(env::current_exe().expect("this program has a path"));
        command.args(["usable_size_of_265", "--exact", "--ignored", "--nocapture"]);
        let output = run(command.env("PAGEWISE_SIZEMAP", sizemap), true);
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        let size = out.split("usable ").nth(1).and_then(|rest| rest.split_whitespace().next());
        size.unwrap_or_else(|| panic!("{out}")).to_owned()
    };
    assert_eq!(of("16,64,272,1024"), "272");
    assert_eq!(of("16,64,288,1024"), "288");
    assert_eq!(of("16,64,280,1024"), "320", "280 is no multiple of 16: the default serves");
}

#[test]
#[ignore = "with the library"]
fn usable_size_of_265() {
    // SAFETY: the block is freed once.
    unsafe {
        let block = libc::malloc(265);
        println!("usable {}", libc::malloc_usable_size(block));
        libc::free(block);
    }
}

/// In hardened mode, each function that takes a size stops the process if the size is wrong.
#[test]
fn a_wrong_size() {
    for name in ["free_sized", "free_aligned_sized", "_ZdlPvm", "_ZdaPvmSt11align_val_t"] {
        let mut command = Command::new(env::current_exe().expect("this program has a path"));
        let arguments = ["wrong_size", "--exact", "--ignored", "--nocapture"];
        command.args(arguments).env(NAME, name).env("PAGEWISE_HARDENED", "checks");
        let output = run(&mut command, true);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{name}: {err}");
        assert!(err.contains("a size that is not its own"), "{name}: {err}");
    }
}

const NAME: &str = "PAGEWISE_TEST_NAME";

#[test]
#[ignore = "with the library, in hardened mode, in a process of its own, which it stops"]
fn wrong_size() {
    let name = env::var(NAME).expect("it is run by a test");
    let is_aligned = name.contains("align");
    let name = std::ffi::CString::new(name).expect("a name");
    // SAFETY: the functions have these types; the last free is the misuse that must be detected.
    unsafe {
        let function = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
        assert!(!function.is_null());
        let free = |size: usize| {
            let block = libc::aligned_alloc(16, 96);
            if !is_aligned {
                let free: unsafe extern "C" fn(*mut c_void, usize) = std::mem::transmute(function);
                free(block, size);
            } else if name.as_bytes().starts_with(b"_Z") {
                let delete: unsafe extern "C" fn(*mut c_void, usize, usize) =
                    std::mem::transmute(function);
                delete(block, size, 16);
            } else {
                let free: unsafe extern "C" fn(*mut c_void, usize, usize) =
                    std::mem::transmute(function);
                free(block, 16, size);
            }
        };
        free(96);
        free(95);
    }
}

fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn set_errno(error: c_int) {
    // SAFETY: the location belongs to the calling thread and is always valid.
    unsafe { *libc::__errno_location() = error };
}

unsafe extern "C" {
    fn valloc(size: usize) -> *mut c_void;
    fn pvalloc(size: usize) -> *mut c_void;
}

/// The rules of C, POSIX and GNU's manual for `errno`, and for unusual sizes and alignments.
#[test]
#[ignore = "with the library"]
fn rules() {
    huge_requests_fail();
    alignments_are_kept_or_refused();
    errno_is_kept();
    requests_of_nothing_and_of_zeros_are_served();
}

/// Returns a size that no allocator has. `black_box`, because a compiler that knows `malloc` may
/// assume that it succeeds.
fn huge() -> usize {
    black_box(usize::MAX / 2)
}

/// Returns whether a request failed with ENOMEM.
fn fails(block: *mut c_void) -> bool {
    let failed = black_box(block).is_null() && errno() == libc::ENOMEM;
    set_errno(0);
    failed
}

fn huge_requests_fail() {
    set_errno(0);
    // SAFETY: the block is freed once, by the last `realloc`.
    unsafe {
        assert!(fails(libc::malloc(huge())));
        assert!(fails(libc::calloc(huge(), 3)));
        let block = libc::malloc(100);
        assert!(fails(libc::realloc(block, huge())));
        assert!(fails(libc::reallocarray(block, huge(), 3)));
        assert!(libc::malloc_usable_size(block) >= 100);
        assert!(libc::realloc(block, 0).is_null());
    }
}

fn alignments_are_kept_or_refused() {
    set_errno(77);
    let mut out: *mut c_void = ptr::without_provenance_mut(1);
    // SAFETY: `out` is valid for writes, and blocks are freed once.
    unsafe {
        assert_eq!(libc::posix_memalign(&mut out, 24, 8), libc::EINVAL);
        assert_eq!(libc::posix_memalign(&mut out, 4, 8), libc::EINVAL);
        assert_eq!(libc::posix_memalign(&mut out, 64, huge()), libc::ENOMEM);
        assert!(out.addr() == 1 && errno() == 77);
        for log2 in 3..24 {
            assert_eq!(libc::posix_memalign(&mut out, 1 << log2, 100), 0);
            assert!(out.addr().is_multiple_of(1 << log2));
            libc::free(out);
        }
        // The largest alignment of an address, and sizes that overflow when they are rounded up.
        let top = black_box(1 << (usize::BITS - 1));
        for size in [0, 8, huge(), usize::MAX] {
            assert_eq!(libc::posix_memalign(&mut out, top, size), libc::ENOMEM);
            assert!(fails(libc::aligned_alloc(top, size)));
            assert!(fails(libc::memalign(top, size)));
        }
        assert!(fails(valloc(usize::MAX)) && fails(pvalloc(usize::MAX)));
        assert!(black_box(libc::memalign(top + 1, 8)).is_null() && errno() == libc::EINVAL);
        assert!(libc::aligned_alloc(3, 100).is_null() && errno() == libc::EINVAL);
        let aligned = libc::memalign(48, 100);
        assert!(aligned.addr().is_multiple_of(64));
        libc::free(aligned);
    }
}

fn errno_is_kept() {
    // SAFETY: blocks are in use when they are measured, resized or freed, and freed once.
    unsafe {
        set_errno(77);
        libc::free(ptr::null_mut());
        let blocks: Vec<_> = (0..3000).map(|count| libc::malloc(count * 20)).collect();
        assert!(blocks.iter().all(|block| !block.is_null()));
        set_errno(77);
        blocks.into_iter().for_each(|block| libc::free(block));
        libc::free(libc::malloc(100 << 20));
        assert_eq!(errno(), 77, "free keeps errno");
        let mapped = libc::malloc(100 << 20);
        set_errno(77);
        assert!(libc::malloc_usable_size(mapped) >= 100 << 20);
        assert_eq!(errno(), 77, "measuring a mapping keeps errno");
        libc::free(libc::realloc(mapped, 100));
        assert_eq!(errno(), 77, "making a mapping a block of a heap keeps errno");
    }
}

fn requests_of_nothing_and_of_zeros_are_served() {
    // SAFETY: blocks are freed once, and read within their size.
    unsafe {
        let (one, other) = (libc::malloc(0), libc::malloc(0));
        assert!(!one.is_null() && one != other);
        libc::free(one);
        libc::free(other);
        let zeros = libc::calloc(1000, 1000).cast::<u8>();
        assert!((0..1_000_000).all(|index| *zeros.add(index) == 0));
        libc::free(zeros.cast());
        libc::malloc_trim(0);
        assert_eq!(libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20), 0, "nothing is changed");
    }
}

/// Threads that come and go use blocks of both copies.
#[test]
#[ignore = "with the library"]
fn two_copies() {
    for _ in 0..20 {
        let threads: Vec<_> = (0..8usize)
            .map(|mark| {
                std::thread::spawn(move || {
                    let of_rust: Vec<_> = (0..500).map(|size| vec![mark as u8; size * 7]).collect();
                    // SAFETY: blocks are freed once, and written within their size.
                    unsafe {
                        let of_c: Vec<_> = (1..500usize)
                            .map(|size| {
                                let block = libc::malloc(size * 7).cast::<u8>();
                                block.write_bytes(mark as u8, size * 7);
                                block
                            })
                            .collect();
                        for (index, block) in of_c.into_iter().enumerate() {
                            assert_eq!(*block.add(index * 7), mark as u8);
                            libc::free(block.cast());
                        }
                    }
                    assert!(of_rust.iter().flatten().all(|&byte| byte == mark as u8));
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    }
}

/// Profiles programs through the environment alone: their output is unchanged, and the profile
/// names their files.
#[test]
fn programs_are_profiled() {
    for (program, script) in [
        (
            "gawk",
            "gawk 'BEGIN { for (i = 0; i < 200000; i++) a[i % 5000] = a[i % 5000] i; print length(a[7]) }'",
        ),
        (
            "perl",
            "perl -e 'my %h; $h{$_ % 7001} .= \"x$_\" for 1..200000; print length($h{9}), \"\\n\"'",
        ),
        (
            "python3",
            "python3 -c 'import json; d = {str(i): [i] * 5 for i in range(50000)}; print(len(json.loads(json.dumps(d))))'",
        ),
    ] {
        if !is_installed(program) {
            println!("{program} is not installed");
            continue;
        }
        let folder = tempfile::tempdir().expect("a temporary directory");
        let run = |environment: &[(&str, &str)]| {
            let mut shell = Command::new("sh");
            let shell =
                shell.args(["-c", script]).env("LD_PRELOAD", library()).current_dir(&folder);
            shell.envs(environment.iter().copied()).output().expect("it runs")
        };
        let plain = run(&[]);
        let profiled = run(&[("PAGEWISE_PROFILE", "%p.pb.gz:2000"), ("PAGEWISE_VERBOSE", "1")]);
        assert!(plain.status.success() && plain.stdout == profiled.stdout, "{program}");
        assert_eq!(String::from_utf8_lossy(&profiled.stderr), "", "{program}");
        let files = std::fs::read_dir(&folder).expect("a folder");
        let largest =
            files.flatten().filter_map(|file| std::fs::read(file.path()).ok()).max_by_key(Vec::len);
        let largest = largest.expect("it was written");
        // gzip blocks are stored, so texts can be found in the file as they are.
        let has = |text: &str| largest.windows(text.len()).any(|bytes| bytes == text.as_bytes());
        assert!(
            largest.starts_with(&[0x1f, 0x8b]) && has("inuse_space") && has("libc.so"),
            "{program}"
        );
        assert!(largest.len() > 2_000, "{program}: {} bytes", largest.len());
    }
}

/// What the library writes may find no reader, or exceed the limit on files. Both send a signal
/// that ends a program which does not expect it, but no program expects the library to write.
#[test]
fn a_write_that_fails_ends_no_program() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let profile = format!("{}:1000", folder.path().join("heap.pb.gz").display());
    for (name, value) in [
        ("PAGEWISE_SHOW_STATS", "1"),
        ("PAGEWISE_NONSENSE", "1"),
        ("PAGEWISE_PROFILE", "/nowhere/heap.pb.gz"),
        ("PAGEWISE_PROFILE", "/dev/stderr"),
    ] {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let mut program = Command::new("true");
        program.env("LD_PRELOAD", library()).env("PAGEWISE_VERBOSE", "1").env(name, value);
        let status = program.stderr(writer).status().expect("it runs");
        assert!(status.success(), "{name}={value}: {status}");
    }
    let mut program = Command::new("true");
    program.env("LD_PRELOAD", library()).env("PAGEWISE_PROFILE", profile);
    // SAFETY: the call between `fork` and `exec` touches no memory but its argument.
    unsafe {
        program.pre_exec(|| {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            match libc::setrlimit(libc::RLIMIT_FSIZE, &raw const none) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        });
    }
    let output = program.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("cannot write the profile"), "{output:?}");
}

/// Calls the profile functions of `pagewise.h`.
#[test]
fn a_profile_can_be_requested() {
    if !is_installed("cc") {
        println!("cc is not installed");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let source = r#"
#include <errno.h>
#include <pagewise.h>
#include <stdlib.h>
int main(void) {
    if (pagewise_profile_stop() != 0 || pagewise_profile_dump("heap") != EINVAL) return 1;
    if (pagewise_profile_start(0) != EINVAL || pagewise_profile_start(1000) != 0) return 2;
    if (pagewise_profile_start(1000) != EINVAL) return 3;
    char *volatile blocks[1000];
    for (int i = 0; i < 1000; i++) blocks[i] = malloc(5000);
    for (int i = 0; i < 500; i++) free(blocks[i]);
    if (pagewise_profile_dump("heap") != 0 || pagewise_profile_dump("/nowhere/heap") != ENOENT) return 4;
    return pagewise_profile_stop() != 0 || pagewise_profile_dump("heap") != 0 || pagewise_profile_dump(NULL) != EINVAL;
}"#;
    std::fs::write(folder.path().join("a.c"), source).expect("the folder takes files");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let script = r#"cc -I"$INCLUDE" a.c -o a "$LIBRARY" -Wl,-rpath,"${LIBRARY%/*}" && LD_PRELOAD="$LIBRARY" ./a && [ -s heap ]"#;
    let out = Command::new("sh")
        .args(["-c", script])
        .env("INCLUDE", include)
        .env("LIBRARY", library())
        .current_dir(&folder)
        .output()
        .expect("it runs");
    assert!(out.status.success(), "{:?}: {}", out.status, String::from_utf8_lossy(&out.stderr));
}
