/*
 * How long CGI programs take from start to end:
 *
 *   spawn ROUNDS BODY-FILE PROGRAM...
 *
 * Starts each program in turn ROUNDS times, with the body as standard input and this process's
 * environment, and prints a line "microseconds CPU-microseconds" for each: the median time from
 * start to end, and the mean CPU time. What they answer is dropped.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROGRAMS_MAX 8
#define ROUNDS_MAX   10000

extern char **environ;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int64_t us_of(struct timeval t)
{
    return (int64_t)t.tv_sec * 1000000 + t.tv_usec;
}

/* Returns the time from start to end; adds the CPU time. */
static int64_t run(char *program, const char *body, int64_t *cpu_us)
{
    char *const argv[] = {program, NULL};
    posix_spawn_file_actions_t files;
    struct rusage used;
    int status;
    pid_t pid;

    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, body, O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    int64_t begin = now_us();
    if (posix_spawn(&pid, program, &files, NULL, argv, environ) != 0)
        die(program);
    if (wait4(pid, &status, 0, &used) != pid || status != 0)
        die("the program's end");
    int64_t end = now_us();
    posix_spawn_file_actions_destroy(&files);
    *cpu_us += us_of(used.ru_utime) + us_of(used.ru_stime);
    return end - begin;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static int64_t took[PROGRAMS_MAX][ROUNDS_MAX];
    int64_t cpu_us[PROGRAMS_MAX] = {0};
    int programs = argc - 3;
    long rounds = argc > 3 ? strtol(argv[1], NULL, 10) : 0;

    if (rounds < 1 || rounds > ROUNDS_MAX || programs > PROGRAMS_MAX) {
        fprintf(stderr, "usage: spawn ROUNDS BODY-FILE PROGRAM...\n");
        return 2;
    }
    for (long round = 0; round < rounds; round++)
        for (int p = 0; p < programs; p++)
            took[p][round] = run(argv[3 + p], argv[2], &cpu_us[p]);
    for (int p = 0; p < programs; p++) {
        qsort(took[p], (size_t)rounds, sizeof took[p][0], compare);
        printf("%lld %lld\n", (long long)took[p][rounds / 2], (long long)(cpu_us[p] / rounds));
    }
    return 0;
}
