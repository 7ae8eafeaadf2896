/* SPDX-License-Identifier: Apache-2.0 */
/* Workspaces as folders of this machine do what all must do; what they alone do is in the tests beside this one. */
#include "workspace_contract.h"

struct world contract_world(void **state) {
        return world_of(state);
}

int main(void) {
        const struct CMUnitTest tests[] = { WORKSPACE_CONTRACT(place_setup, place_teardown) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
