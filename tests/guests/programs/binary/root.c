/* Newton's way to the root of a number, as a program that was compiled. */
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words) {
    double number = atof(words[1]), root = 1;
    for (int step = 1; step <= 6; step++) {
        root = (root + number / root) / 2;
        double loss = root * root - number;
        printf("{\"step\": %d, \"loss\": %.6g}\n", step, loss < 0 ? -loss : loss);
        fflush(stdout);
    }
    return 0;
}
