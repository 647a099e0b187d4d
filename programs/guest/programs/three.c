// Three programs run at once, at the same addresses with different code; also exec in a running process.
#include "linux.h"

int main(int count, char **arguments) {
    static char *const names[] = { "./preempt", "./signals", "./paging" };
    static char *const words[3][4] = { { "preempt" }, { "signals" }, { "paging", "a", "b" } };
    long children[3];
    int ends[3][2];
    for (int n = 0; n < 3; n++) {
        MUST(call(PIPE2, ends[n], 0, 0) == 0);
        children[n] = call(FORK, 0, 0, 0);
        if (children[n] == 0) {
            char *none = 0;
            // Its output is read later, all at once.
            MUST(call(33, ends[n][1], 1, 0) == 1 && call(CLOSE, ends[n][1], 0, 0) == 0);
            call(EXECVE, names[n], words[n], &none);
            leave(97);
        }
        call(CLOSE, ends[n][1], 0, 0);
    }
    for (int n = 0; n < 3; n++) {
        char text[256];
        long len;
        while ((len = call(READ, ends[n][0], text, sizeof text)) > 0) call(WRITE, 1, text, len);
        tell(names[n], wait_for(children[n]));
    }
    char *none = 0;
    MUST(call(EXECVE, "./not-there", &none, &none) == -2);
    MUST(call(EXECVE, "./data", &none, &none) < 0);
    return 7;
}
