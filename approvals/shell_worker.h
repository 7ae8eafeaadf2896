/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program between the server and a command on the host: it gives the command its user, its folder and nothing else, kills what outlives the
 * deadline or the server, and what the command left behind. Descriptors: 0 is its task, one line of JSON, whose writer stays open as long as
 * the server wants the command to run; 1 and 2 are the command's; 3 the program, 4 the folder; 5 takes the report, one object of JSON. Its
 * environment is the command's.
 *
 * Before there is a command it looks for one: with `find` in the task, and neither 3 nor 4, it
 * becomes that user and reports what it finds.
 */
#ifndef BERTH_APPROVALS_SHELL_WORKER_H
#define BERTH_APPROVALS_SHELL_WORKER_H

#define SHELL_WORKER_VERB "shell-worker"

enum { SHELL_WORKER_PROGRAM = 3, SHELL_WORKER_FOLDER, SHELL_WORKER_REPORT };

/* Of the program that is started as `berth shell-worker`. */
int shell_worker_main(void);

#endif
