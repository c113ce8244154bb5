/* cut(K, ROOT, BEGIN, LOG): go on in a child, count what it changes under ROOT, kill it right after the K-th change.
 *
 * A change is a system call that makes, moves or removes a name: creating a file, rename, link, unlink, mkdir, rmdir. Counting
 * starts when the child makes the directory BEGIN. Every change is written to LOG as one line before the child goes on: the
 * call and the names, relative to ROOT. K = 0 kills nothing. What lies under ROOT/_locks is not counted.
 *
 * Calls are seen by the kernel's own means (seccomp and ptrace), because not all code goes through the C library. One change
 * is under way at a time: a thread that wants to make the next one waits until the one before it is written down. So the
 * state left behind is exactly that of the K lines of the log.
 *
 * The caller becomes the watcher and ends with the status of the child: 200 when it was killed after the K-th change, 201 when
 * it cannot be watched.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILLED = 200, UNTRACEABLE = 201, THREADS = 4096 };

static const char *root, *begin;
static long limit, changes;
static int log_file, counting;

/* How a call names its files: at most two, each with the directory it is relative to (-1: the working directory). */
struct shape {
    long number;
    const char *name;
    int directory[2], path[2], flags;
};

static const struct shape shapes[] = {
#ifdef SYS_open
    {SYS_open, "create", {-1, -1}, {0, -1}, 1},
    {SYS_creat, "create", {-1, -1}, {0, -1}, -1},
    {SYS_rename, "rename", {-1, -1}, {0, 1}, -1},
    {SYS_link, "link", {-1, -1}, {0, 1}, -1},
    {SYS_unlink, "unlink", {-1, -1}, {0, -1}, -1},
    {SYS_mkdir, "mkdir", {-1, -1}, {0, -1}, -1},
    {SYS_rmdir, "rmdir", {-1, -1}, {0, -1}, -1},
#endif
#ifdef SYS_renameat
    {SYS_renameat, "rename", {0, 2}, {1, 3}, -1},
#endif
    {SYS_openat, "create", {0, -1}, {1, -1}, 2},
    {SYS_renameat2, "rename", {0, 2}, {1, 3}, -1},
    {SYS_linkat, "link", {0, 2}, {1, 3}, -1},
    {SYS_unlinkat, "unlink", {0, -1}, {1, -1}, -1},
    {SYS_mkdirat, "mkdir", {0, -1}, {1, -1}, -1},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Threads of the command. `line` is the change a thread is making, empty when it is making none. */
struct thread {
    pid_t id;
    int waiting;
    char line[2 * PATH_MAX + 32];
};
static struct thread threads[THREADS];
static struct thread *busy; /* the one that is making a change */

static void give_up(const char *what) {
    fprintf(stderr, "cut: %s: %s\n", what, strerror(errno));
    _exit(UNTRACEABLE);
}

static struct thread *thread_of(pid_t id) {
    struct thread *free_one = NULL;
    for (int i = 0; i < THREADS; i++) {
        if (threads[i].id == id) return &threads[i];
        if (!threads[i].id && !free_one) free_one = &threads[i];
    }
    if (!free_one) give_up("too many threads");
    *free_one = (struct thread){.id = id};
    return free_one;
}

/* Only calls that may change a name stop the command; opening a file stops it only if it may create one. */
static void install_filter(void) {
    struct sock_filter code[4 * SHAPES + 2];
    int length = 0;
    code[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < SHAPES; i++) {
        const struct shape *shape = &shapes[i];
        if (shape->flags < 0) {
            code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, shape->number, 0, 1);
            code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
            continue;
        }
        unsigned argument = offsetof(struct seccomp_data, args) + 8 * shape->flags;
        code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, shape->number, 0, 4);
        code[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument);
        code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT, 0, 1);
        code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
        code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {length, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) give_up("no_new_privs");
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) give_up("seccomp");
}

static void read_text(pid_t id, unsigned long address, char *text) {
    size_t done = 0;
    while (done < PATH_MAX - 1) {
        size_t piece = 256 - (address + done) % 256; /* never across a page that may not be there */
        if (piece > PATH_MAX - 1 - done) piece = PATH_MAX - 1 - done;
        struct iovec local = {text + done, piece}, remote = {(void *)(address + done), piece};
        ssize_t got = process_vm_readv(id, &local, 1, &remote, 1, 0);
        if (got <= 0) break;
        if (memchr(text + done, 0, got)) return;
        done += got;
    }
    text[done] = 0;
}

static void absolute(pid_t id, int directory, const char *name, char *path) {
    if (*name == '/') {
        snprintf(path, PATH_MAX, "%s", name);
        return;
    }
    char link[64], place[PATH_MAX];
    if (directory == AT_FDCWD) snprintf(link, sizeof link, "/proc/%d/cwd", id);
    else snprintf(link, sizeof link, "/proc/%d/fd/%d", id, directory);
    ssize_t length = readlink(link, place, sizeof place - 1);
    place[length < 0 ? 0 : length] = 0;
    if (snprintf(path, PATH_MAX, "%s/%s", place, name) >= PATH_MAX) path[0] = 0;
}

static const char *below_root(const char *path) {
    size_t length = strlen(root);
    if (strncmp(path, root, length) || (path[length] && path[length] != '/')) return NULL;
    return path[length] ? path + length + 1 : ".";
}

/* The line of a change that a call is about to make; empty when it is none that counts. */
static void describe(struct thread *thread, const struct shape *shape, const uint64_t *arguments) {
    char names[2][PATH_MAX] = {"", ""}, raw[PATH_MAX];
    for (int i = 0; i < 2 && shape->path[i] >= 0; i++) {
        int directory = shape->directory[i] < 0 ? AT_FDCWD : (int)arguments[shape->directory[i]];
        read_text(thread->id, arguments[shape->path[i]], raw);
        absolute(thread->id, directory, raw, names[i]);
    }
    struct stat found;
    thread->line[0] = 0;
    if (!strcmp(shape->name, "mkdir") && !strcmp(names[0], begin)) {
        strcpy(thread->line, "begin");
        return;
    }
    const char *first = below_root(names[0]), *second = names[1][0] ? below_root(names[1]) : NULL;
    if (!counting || (!first && !second)) return;
    if (first && !strncmp(first, "_locks", 6)) return;
    if (!strcmp(shape->name, "create") && !lstat(names[0], &found)) return;
    snprintf(thread->line, sizeof thread->line, "%s %s%s%s\n", shape->name, first ? first : "", second ? " " : "",
             second ? second : "");
}

static int entered(struct thread *thread) {
    struct __ptrace_syscall_info info;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, thread->id, sizeof info, &info) < 0) return 0;
    for (int i = 0; i < SHAPES; i++)
        if ((long)info.seccomp.nr == shapes[i].number) describe(thread, &shapes[i], info.seccomp.args);
    return thread->line[0] != 0;
}

/* Write a change down; whether it was the last one allowed. */
static int left(struct thread *thread) {
    struct __ptrace_syscall_info info;
    int last = 0;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, thread->id, sizeof info, &info) > 0 && !info.exit.is_error) {
        if (!strcmp(thread->line, "begin")) counting = 1;
        else {
            if (write(log_file, thread->line, strlen(thread->line)) < 0) give_up("log");
            last = ++changes == limit;
        }
    }
    thread->line[0] = 0;
    return last;
}

static void next_in_line(void) {
    for (int i = 0; i < THREADS && !busy; i++) {
        if (!threads[i].id || !threads[i].waiting) continue;
        threads[i].waiting = 0;
        /* What it will do is described again: the name may have come into being meanwhile. */
        if (entered(&threads[i])) {
            busy = &threads[i];
            ptrace(PTRACE_SYSCALL, threads[i].id, 0, 0);
        } else ptrace(PTRACE_CONT, threads[i].id, 0, 0);
    }
}

static void stopped(struct thread *thread, int status, pid_t command) {
    int signal = WSTOPSIG(status), event = status >> 16;
    if (event == PTRACE_EVENT_SECCOMP) {
        if (busy) thread->waiting = 1;
        else if (entered(thread)) {
            busy = thread;
            ptrace(PTRACE_SYSCALL, thread->id, 0, 0);
        } else ptrace(PTRACE_CONT, thread->id, 0, 0);
    } else if (signal == (SIGTRAP | 0x80)) {
        if (thread == busy) {
            if (left(thread)) {
                kill(command, SIGKILL);
                while (waitpid(-1, NULL, __WALL) > 0 || errno == EINTR) continue;
                _exit(KILLED);
            }
            busy = NULL;
        }
        ptrace(PTRACE_CONT, thread->id, 0, 0);
        next_in_line();
    } else if (event || signal == SIGSTOP) ptrace(PTRACE_CONT, thread->id, 0, 0);
    else ptrace(PTRACE_CONT, thread->id, 0, signal);
}

static int watch(pid_t command) {
    int status;
    if (waitpid(command, &status, 0) < 0 || !WIFSTOPPED(status)) return UNTRACEABLE;
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE |
                   PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC;
    if (ptrace(PTRACE_SETOPTIONS, command, 0, options)) give_up("ptrace");
    ptrace(PTRACE_CONT, command, 0, 0);
    for (pid_t id; (id = waitpid(-1, &status, __WALL)) > 0;) {
        struct thread *thread = thread_of(id);
        if (WIFSTOPPED(status)) stopped(thread, status, command);
        else {
            if (busy == thread) busy = NULL;
            thread->id = 0;
            if (id == command) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            next_in_line();
        }
    }
    return UNTRACEABLE;
}

/* Returns in the child only. */
void cut(long after, const char *where, const char *start, const char *log_name) {
    limit = after, root = where, begin = start;
    log_file = open(log_name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    pid_t command = fork();
    if (command) _exit(watch(command));
    if (ptrace(PTRACE_TRACEME, 0, 0, 0)) give_up("ptrace");
    raise(SIGSTOP);
    install_filter();
}
