/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two meta pages say where the roots of two trees are: the tree of free pages and the main tree, whose values are
 * the roots of the named databases. Each tree is walked from its root, page by page, with a bit for every page of the
 * file: a page that is reached twice, or is free and reached as well, is damage. On each page headers, bounds of
 * nodes and the order of keys are checked; the entries are counted and compared to the number that the tree's root
 * gives.
 *
 * Nothing read here is believed before it is checked: no offset, count or page number leads outside of a buffer or
 * into a loop. Depth is bounded by DEPTH_MAX, and since no page is reached twice the walk ends.
 */
#include "state/pages.h"

#include "state/sealed_value.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0xBEEFC0DEU
#define DATA_VERSION 1
#define NO_PAGE UINT64_MAX
#define KEY_MAX 511
#define DEPTH_MAX 31
#define META_PAGES 2
#define PAGE_SIZE_MIN 512
/*
 * The last transaction may have left pages at the end of the file unwritten. All of them are free, and they are never more
 * than a transaction's list of pages holds (MDB_IDL_UM_MAX).
 */
#define UNWRITTEN_MAX 131072

enum { PAGE_BRANCH = 1, PAGE_LEAF = 2, PAGE_OVERFLOW = 4, PAGE_META = 8 };
enum { NODE_BIG = 1, NODE_TREE = 2 };
enum { TREE_INTEGER_KEYS = 8 };

struct page_header {
        uint64_t number;
        uint16_t pad, flags, lower, upper; /* lower and upper together: how many pages, of an overflow page */
};

struct node_header {
        uint16_t low, high, flags, key_size;
};

struct tree_header {
        uint32_t pad; /* of the free tree: the page size */
        uint16_t flags, depth;
        uint64_t branch_pages, leaf_pages, overflow_pages, entries, root;
};

struct meta {
        uint32_t magic, version;
        uint64_t address, map_size;
        struct tree_header free, main;
        uint64_t last_page, transaction;
};

static_assert(sizeof(size_t) == 8 && sizeof(struct page_header) == 16 && sizeof(struct node_header) == 8 &&
                      sizeof(struct tree_header) == 48 && sizeof(struct meta) == 136,
              "LMDB's layout on 64-bit machines");

struct walk {
        int descriptor;
        const char *path;
        size_t page_size;
        uint64_t page_count, file_size, transaction;
        uint8_t *seen; /* a bit a page */
        struct error *err;
};

enum tree_kind { TREE_FREE, TREE_MAIN, TREE_NAMED };

struct tree {
        enum tree_kind kind;
        unsigned depth;
        uint64_t entries;
        uint8_t *buffers; /* a page a level */
        uint8_t key[KEY_MAX];
        size_t key_size;
        bool has_key, may_equal; /* whether `key` is a bound; whether the next key may be the same */
};

static int fail_damaged(struct error *err, const char *path, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

static int fail_damaged(struct error *err, const char *path, const char *format, ...) {
        char what[512];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(what, sizeof(what), format, arguments);
        va_end(arguments);
        return error_set(err,
                         "the state file %s %s; Berth does not start over with an empty state: " STATE_REMEDY,
                         path, what);
}

/* All `size` bytes, or an error. */
static int read_at(int descriptor, const char *path, void *buffer, size_t size, uint64_t offset,
                   struct error *err) {
        size_t done = 0;

        while (done < size) {
                ssize_t got = pread(descriptor, (char *)buffer + done, size - done, (off_t)(offset + done));

                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        return error_set(err, "cannot read the state file %s: %s", path, strerror(errno));
                if (got == 0)
                        return fail_damaged(err, path,
                                            "is truncated (it ends at byte %llu, inside a page in use)",
                                            (unsigned long long)(offset + done));
                done += (size_t)got;
        }
        return 0;
}

static bool page_size_valid(uint32_t size) {
        return size >= PAGE_SIZE_MIN && size <= 32768 && (size & (size - 1)) == 0;
}

struct meta_page {
        struct page_header header;
        struct meta meta;
};
static_assert(sizeof(struct meta_page) == PAGES_META_SIZE, "as it is saved");

static int read_meta(int descriptor, const char *path, uint64_t number, uint64_t page_size, struct meta *ret,
                     struct error *err) {
        struct meta_page page;

        if (read_at(descriptor, path, &page, sizeof(page), number * page_size, err) < 0)
                return -1;
        if (page.meta.magic != MAGIC || page.header.flags != PAGE_META || page.header.number != number)
                return fail_damaged(err, path,
                                    "is no state file, or was overwritten (meta page %d is missing)",
                                    (int)number);
        if (page.meta.version != DATA_VERSION)
                return fail_damaged(err, path, "has LMDB data version %u, not %d", page.meta.version,
                                    DATA_VERSION);
        if (!page_size_valid(page.meta.free.pad) || (page_size && page.meta.free.pad != page_size) ||
            page.meta.free.flags != TREE_INTEGER_KEYS || page.meta.main.flags != 0 ||
            page.meta.address != 0 || page.meta.last_page < META_PAGES - 1)
                return fail_damaged(err, path, "is damaged (meta page %d is corrupt)", (int)number);
        *ret = page.meta;
        return 0;
}

/*
 * Each transaction writes the meta page that its number's last bit names, so the two hold consecutive numbers, or both
 * 0 in a file without any. Another pair means a damaged number, and that an old state would pass for the newest.
 */
static bool metas_agree(const struct meta metas[2]) {
        uint64_t even = metas[0].transaction, odd = metas[1].transaction;

        if (even == 0 && odd == 0)
                return true;
        return even % 2 == 0 && odd % 2 == 1 && (even + 1 == odd || odd + 1 == even);
}

static int read_metas(int descriptor, const char *path, struct meta ret[2], struct error *err) {
        const struct timespec pause = { .tv_nsec = 5 * 1000 * 1000 };

        if (read_meta(descriptor, path, 0, 0, &ret[0], err) < 0)
                return -1;
        if (read_meta(descriptor, path, 1, ret[0].free.pad, &ret[1], err) < 0)
                return -1;
        /* Another process may have committed twice between the two reads. */
        for (int attempt = 0; attempt < 20 && !metas_agree(ret); attempt++) {
                nanosleep(&pause, NULL);
                if (read_meta(descriptor, path, 0, 0, &ret[0], err) < 0 ||
                    read_meta(descriptor, path, 1, ret[0].free.pad, &ret[1], err) < 0)
                        return -1;
        }
        if (!metas_agree(ret))
                return fail_damaged(err, path, "is damaged (its meta pages do not belong together)");
        return 0;
}

static int file_size(int descriptor, const char *path, uint64_t *ret, struct error *err) {
        struct stat status;

        if (fstat(descriptor, &status) < 0)
                return error_set(err, "cannot look at the state file %s: %s", path, strerror(errno));
        if (!S_ISREG(status.st_mode))
                return error_set(err, "the state file %s is not a regular file", path);
        *ret = (uint64_t)status.st_size;
        return 0;
}

/* A rough check, so that the bits for the walk are not more than the file is worth; the walk is exact. */
static int check_last_page(const char *path, const struct meta *meta, uint64_t size, struct error *err) {
        if (meta->last_page >= size / PAGE_SIZE_MIN + UNWRITTEN_MAX)
                return fail_damaged(err, path,
                                    "is truncated (%llu bytes where its meta page counts %llu pages)",
                                    (unsigned long long)size, (unsigned long long)meta->last_page + 1);
        return 0;
}

int pages_check_head(int descriptor, const char *path, size_t *ret_size, struct error *err) {
        struct meta metas[2] = { 0 };
        const struct meta *newest;
        uint64_t size = 0;

        if (file_size(descriptor, path, &size, err) < 0)
                return -1;
        if (size == 0)
                return fail_damaged(err, path, "is empty");
        if (read_metas(descriptor, path, metas, err) < 0)
                return -1;
        newest = metas[1].transaction > metas[0].transaction ? &metas[1] : &metas[0];
        if (size < (uint64_t)META_PAGES * newest->free.pad)
                return fail_damaged(err, path, "is truncated (%llu bytes)", (unsigned long long)size);
        if (check_last_page(path, newest, size, err) < 0)
                return -1;
        *ret_size = (newest->last_page + 1) * newest->free.pad;
        return 0;
}

static int mark_used(struct walk *walk, uint64_t page, uint64_t count) {
        if (page < META_PAGES || page >= walk->page_count || count > walk->page_count - page)
                return fail_damaged(walk->err, walk->path, "is damaged (it points to page %llu of %llu)",
                                    (unsigned long long)page, (unsigned long long)walk->page_count);
        for (; count > 0; page++, count--) {
                uint8_t bit = (uint8_t)(1U << (page % 8));

                if (walk->seen[page / 8] & bit)
                        return fail_damaged(walk->err, walk->path, "is damaged (page %llu is used twice)",
                                            (unsigned long long)page);
                walk->seen[page / 8] |= bit;
        }
        return 0;
}

static int bad_page(struct walk *walk, uint64_t page, const char *what) {
        return fail_damaged(walk->err, walk->path, "is damaged (page %llu: %s)", (unsigned long long)page,
                            what);
}

/* Keys of the free tree are numbers, all others bytes. */
static int compare_keys(const struct tree *tree, const uint8_t *key, size_t size) {
        size_t shorter = size < tree->key_size ? size : tree->key_size;
        int order;

        if (tree->kind == TREE_FREE) {
                uint64_t a, b;

                memcpy(&a, key, sizeof(a));
                memcpy(&b, tree->key, sizeof(b));
                return (a > b) - (a < b);
        }
        order = memcmp(key, tree->key, shorter);
        return order ? order : (size > tree->key_size) - (size < tree->key_size);
}

/* Whether the key may come next: above the one before, or equal to it where that one was a branch's separator. */
static bool next_key(struct tree *tree, const uint8_t *key, size_t size, bool separator) {
        if (tree->kind == TREE_FREE ? size != sizeof(uint64_t) : size < 1 || size > KEY_MAX)
                return false;
        if (tree->has_key) {
                int order = compare_keys(tree, key, size);

                if (order < 0 || (order == 0 && !tree->may_equal))
                        return false;
        }
        memcpy(tree->key, key, size);
        tree->key_size = size;
        tree->has_key = true;
        tree->may_equal = separator;
        return true;
}

/* A value too large for its leaf, on pages of its own; `ret` takes its bytes where it is not NULL. */
static int walk_overflow(struct walk *walk, uint64_t page, uint64_t size, uint8_t *ret) {
        uint64_t needed = (sizeof(struct page_header) - 1 + size) / walk->page_size + 1;
        uint64_t offset = page * walk->page_size + sizeof(struct page_header);
        struct page_header header;
        uint8_t chunk[16384];
        uint32_t pages;

        if (mark_used(walk, page, 1) < 0 || read_at(walk->descriptor, walk->path, &header, sizeof(header),
                                                    page * walk->page_size, walk->err) < 0)
                return -1;
        memcpy(&pages, (const char *)&header + 12, sizeof(pages));
        if (header.number != page || header.flags != PAGE_OVERFLOW || pages < needed)
                return bad_page(walk, page, "not the large value that belongs there");
        if (pages > 1 && mark_used(walk, page + 1, pages - 1) < 0)
                return -1;
        for (uint64_t done = 0, part; done < size; done += part) {
                part = size - done < sizeof(chunk) ? size - done : sizeof(chunk);
                if (read_at(walk->descriptor, walk->path, ret ? ret + done : chunk, part, offset + done,
                            walk->err) < 0)
                        return -1;
        }
        return 0;
}

/* A list of pages that one transaction freed: how many, then their numbers, falling. */
static int walk_free_list(struct walk *walk, uint64_t page, const uint8_t *list, uint64_t size) {
        uint64_t count, number, before = NO_PAGE;

        if (size < sizeof(count))
                return bad_page(walk, page, "a list of free pages is too short");
        memcpy(&count, list, sizeof(count));
        if (count > size / sizeof(number) - 1)
                return bad_page(walk, page, "a list of free pages is too short");
        for (uint64_t i = 1; i <= count; i++, before = number) {
                memcpy(&number, list + i * sizeof(number), sizeof(number));
                if (number >= before)
                        return bad_page(walk, page, "a list of free pages is out of order");
                if (mark_used(walk, number, 1) < 0)
                        return -1;
        }
        return 0;
}

static int walk_tree(struct walk *walk, enum tree_kind kind, const struct tree_header *header);

/*
 * The value of a leaf's node: a database's root in the main tree, a list of free pages in the free tree, and in a
 * database any bytes, of which only the pages they lie on matter.
 */
static int walk_value(struct walk *walk, const struct tree *tree, uint64_t page, uint16_t flags,
                      const uint8_t *data, uint64_t size) {
        uint8_t *large;
        uint64_t first;
        int result;

        if (tree->kind == TREE_MAIN) {
                struct tree_header header;

                memcpy(&header, data, sizeof(header));
                if (header.flags != 0)
                        return bad_page(walk, page, "a database of a kind that Berth does not make");
                return walk_tree(walk, TREE_NAMED, &header);
        }
        if (!(flags & NODE_BIG))
                return tree->kind == TREE_FREE ? walk_free_list(walk, page, data, size) : 0;
        memcpy(&first, data, sizeof(first));
        if (tree->kind == TREE_NAMED)
                return walk_overflow(walk, first, size, NULL);
        if (size > walk->file_size)
                return bad_page(walk, page, "a list of free pages larger than the file");
        large = malloc(size);
        if (!large)
                abort();
        result = walk_overflow(walk, first, size, large);
        if (result == 0)
                result = walk_free_list(walk, page, large, size);
        free(large);
        return result;
}

static int walk_leaf_node(struct walk *walk, struct tree *tree, uint64_t page, const uint8_t *at,
                          size_t room) {
        struct node_header node;
        uint64_t size, stored, freed_by;

        memcpy(&node, at, sizeof(node));
        size = node.low | (uint64_t)node.high << 16;
        stored = node.flags & NODE_BIG ? sizeof(uint64_t) : size;
        if (sizeof(node) + node.key_size + stored > room)
                return bad_page(walk, page, "a node leaves its page");
        if (tree->kind == TREE_MAIN ? node.flags != NODE_TREE || size != sizeof(struct tree_header)
                                    : (node.flags & ~NODE_BIG) != 0)
                return bad_page(walk, page, "a node of a kind that does not belong there");
        if (!next_key(tree, at + sizeof(node), node.key_size, false))
                return bad_page(walk, page, "keys are out of order");
        if (tree->kind == TREE_FREE) {
                memcpy(&freed_by, at + sizeof(node), sizeof(freed_by));
                if (freed_by > walk->transaction)
                        return bad_page(walk, page, "a list of free pages from the future");
        }
        tree->entries++;
        return walk_value(walk, tree, page, node.flags, at + sizeof(node) + node.key_size, size);
}

static int walk_page(struct walk *walk, struct tree *tree, uint64_t page, unsigned level);

/* The first node of a branch has no key that counts. The key of any other separates what is left of it from what is right. */
static int walk_branch_node(struct walk *walk, struct tree *tree, uint64_t page, const uint8_t *at,
                            size_t room, unsigned level, bool first) {
        struct node_header node;

        memcpy(&node, at, sizeof(node));
        if (sizeof(node) + node.key_size > room)
                return bad_page(walk, page, "a node leaves its page");
        if (!first && !next_key(tree, at + sizeof(node), node.key_size, true))
                return bad_page(walk, page, "keys are out of order");
        return walk_page(walk, tree, node.low | (uint64_t)node.high << 16 | (uint64_t)node.flags << 32,
                         level + 1);
}

static int walk_page(struct walk *walk, struct tree *tree, uint64_t page, unsigned level) {
        uint8_t *bytes = tree->buffers + level * walk->page_size;
        bool leaf = level + 1 == tree->depth;
        struct page_header header;
        size_t count;

        if (mark_used(walk, page, 1) < 0 || read_at(walk->descriptor, walk->path, bytes, walk->page_size,
                                                    page * walk->page_size, walk->err) < 0)
                return -1;
        memcpy(&header, bytes, sizeof(header));
        count = header.lower < sizeof(header) ? 0 : (header.lower - sizeof(header)) / sizeof(uint16_t);
        if (header.number != page || header.flags != (leaf ? PAGE_LEAF : PAGE_BRANCH) || header.lower % 2 ||
            header.lower > header.upper || header.upper > walk->page_size)
                return bad_page(walk, page, "its header is corrupt");
        /* LMDB aborts on a branch with one child; only in the free tree may one be found, between two of its steps. */
        if (count < (leaf || tree->kind == TREE_FREE ? 1U : 2U))
                return bad_page(walk, page, "it holds nothing");
        for (size_t i = 0; i < count; i++) {
                uint16_t offset;
                int result;

                memcpy(&offset, bytes + sizeof(header) + i * sizeof(offset), sizeof(offset));
                if (offset < header.upper || offset % 2 ||
                    offset + sizeof(struct node_header) > walk->page_size)
                        return bad_page(walk, page, "a node lies outside");
                result = leaf ? walk_leaf_node(walk, tree, page, bytes + offset, walk->page_size - offset)
                              : walk_branch_node(walk, tree, page, bytes + offset, walk->page_size - offset,
                                                 level, i == 0);
                if (result < 0)
                        return -1;
        }
        return 0;
}

static int walk_tree(struct walk *walk, enum tree_kind kind, const struct tree_header *header) {
        struct tree tree = { .kind = kind, .depth = header->depth };
        int result;

        if (header->root == NO_PAGE) {
                if (header->depth != 0 || header->entries != 0)
                        return fail_damaged(walk->err, walk->path, "is damaged (a tree without a root)");
                return 0;
        }
        if (header->depth < 1 || header->depth > DEPTH_MAX)
                return fail_damaged(walk->err, walk->path, "is damaged (a tree %u pages deep)",
                                    header->depth);
        tree.buffers = malloc(header->depth * walk->page_size);
        if (!tree.buffers)
                abort();
        result = walk_page(walk, &tree, header->root, 0);
        free(tree.buffers);
        if (result == 0 && tree.entries != header->entries)
                return fail_damaged(walk->err, walk->path, "is damaged (%llu entries where %llu belong)",
                                    (unsigned long long)tree.entries, (unsigned long long)header->entries);
        return result;
}

int pages_check_trees(int descriptor, const char *path, uint64_t transaction, struct error *err) {
        struct walk walk = { .descriptor = descriptor, .path = path, .transaction = transaction, .err = err };
        struct meta meta = { 0 }, other = { 0 };
        int result;

        /* Found by parity: the other page may be under way to a later transaction. */
        if (read_meta(descriptor, path, 0, 0, &other, err) < 0 ||
            read_meta(descriptor, path, transaction & 1, other.free.pad, &meta, err) < 0 ||
            file_size(descriptor, path, &walk.file_size, err) < 0)
                return -1;
        if (meta.transaction != transaction)
                return 1;
        if (check_last_page(path, &meta, walk.file_size, err) < 0)
                return -1;
        walk.page_size = meta.free.pad;
        walk.page_count = meta.last_page + 1;
        walk.seen = calloc(walk.page_count / 8 + 1, 1);
        if (!walk.seen)
                abort();
        result = walk_tree(&walk, TREE_FREE, &meta.free);
        if (result == 0)
                result = walk_tree(&walk, TREE_MAIN, &meta.main);
        free(walk.seen);
        return result;
}

int pages_save_meta(int descriptor, const char *path, uint64_t transaction, uint8_t ret[PAGES_META_SIZE],
                    struct error *err) {
        struct meta first = { 0 };
        struct meta_page page;

        if (read_meta(descriptor, path, 0, 0, &first, err) < 0 ||
            read_at(descriptor, path, &page, sizeof(page), (transaction & 1) * first.free.pad, err) < 0)
                return -1;
        if (page.meta.transaction != transaction)
                return 1;
        memcpy(ret, &page, sizeof(page));
        return 0;
}

/* The other meta page becomes the same as of one transaction before: the two must hold consecutive numbers. */
int pages_restore_meta(int descriptor, const char *path, const uint8_t saved[PAGES_META_SIZE],
                       struct error *err) {
        struct meta_page page;
        uint64_t transaction;

        memcpy(&page, saved, sizeof(page));
        transaction = page.meta.transaction;
        if (page.meta.magic != MAGIC || page.meta.version != DATA_VERSION ||
            !page_size_valid(page.meta.free.pad) || transaction == 0)
                return fail_damaged(err, path, "has a record of its last sync that is corrupt");
        for (uint64_t number = 0; number < META_PAGES; number++) {
                ssize_t written;

                page.header.number = number;
                page.meta.transaction = number == (transaction & 1) ? transaction : transaction - 1;
                written = pwrite(descriptor, &page, sizeof(page), (off_t)(number * page.meta.free.pad));
                if (written != (ssize_t)sizeof(page))
                        return error_set(err, "cannot write to the state file %s: %s", path,
                                         written < 0 ? strerror(errno) : "it was written to in part");
        }
        if (fdatasync(descriptor) < 0)
                return error_set(err, "cannot sync the state file %s: %s", path, strerror(errno));
        return 0;
}
