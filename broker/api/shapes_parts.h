/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of field tables that the queries of all lists have alike. */
#ifndef BERTH_BROKER_API_SHAPES_PARTS_H
#define BERTH_BROKER_API_SHAPES_PARTS_H

#include "broker/api/shapes.h"

/* A filter that may stand several times. */
#define SHAPE_FILTER(name_, item_, doc_) \
        { .name = (name_), .type = FIELD_LIST, .maximum = SHAPES_FILTERS_MAX, .item = (item_), .doc = (doc_) }
#define SHAPE_FILTER_ONE_OF(name_, item_) SHAPE_FILTER(name_, item_, "At least one of these must fit.")

#define SHAPE_LIMIT(maximum_)                                                                \
        {                                                                                    \
                .name = "limit", .type = FIELD_INTEGER, .minimum = 1, .maximum = (maximum_), \
                .default_text = "100", .doc = "How many items a page has at most."           \
        }
#define SHAPE_CURSOR(pattern_)                                               \
        {                                                                    \
                .name = "cursor", .type = FIELD_TEXT, .pattern = (pattern_), \
                .pattern_message = "what a list has given",                  \
                .doc = "What the page before has given as `cursor`."         \
        }

#endif
