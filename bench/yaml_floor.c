/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yaml_floor FILE...: parses each file with libyaml, throws the events away, and prints their number. Nothing that uses
 * libyaml can read YAML faster: bench/run compares `berth plan` with this.
 */
#include <yaml.h>

#include <stdio.h>
#include <stdlib.h>

/* Returns the number of events in the file, or -1. */
static long count_events(FILE *file) {
        yaml_parser_t parser;
        yaml_event_t event;
        yaml_event_type_t type;
        long count = 0;

        if (!yaml_parser_initialize(&parser))
                return -1;
        yaml_parser_set_input_file(&parser, file);
        do {
                if (!yaml_parser_parse(&parser, &event)) {
                        count = -1;
                        break;
                }
                type = event.type;
                yaml_event_delete(&event);
                count++;
        } while (type != YAML_STREAM_END_EVENT);
        yaml_parser_delete(&parser);
        return count;
}

int main(int argc, char *argv[]) {
        long total = 0;

        for (int i = 1; i < argc; i++) {
                FILE *file = fopen(argv[i], "rbe");
                if (!file) {
                        perror(argv[i]);
                        return EXIT_FAILURE;
                }
                long count = count_events(file);
                if (fclose(file) != 0 || count < 0) {
                        fprintf(stderr, "%s: not YAML\n", argv[i]);
                        return EXIT_FAILURE;
                }
                total += count;
        }
        printf("%ld\n", total);
        return EXIT_SUCCESS;
}
