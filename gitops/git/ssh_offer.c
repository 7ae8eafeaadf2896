/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server sends a line that begins with SSH-2.0 (before it, perhaps, others for people), and then, once it has read ours, one
 * packet in the clear: length, padding, 20 (SSH_MSG_KEXINIT), a cookie, and the lists. Nothing more is said after that.
 */
#include "gitops/git/ssh_offer.h"

#include "base/clock.h"
#include "base/files.h"

#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GREETING "SSH-2.0-berth\r\n"
#define GREETING_MAX 8192U /* lines before the packet */
#define PACKET_MAX 35000U  /* RFC 4253, 6.1 */
#define KEXINIT 20
#define COOKIE 16
#define WAIT_MS 10000
#define SHOWN_MAX 300U

#define CIPHERS                                \
        "aes256-ctr or aes128-ctr", "Ciphers", \
                "aes256-ctr,aes192-ctr,aes128-ctr,aes256-cbc,aes192-cbc,aes128-cbc,3des-cbc"
#define MACS "hmac-sha2-256 or hmac-sha2-512", "MACs", "hmac-sha2-256,hmac-sha2-512,hmac-sha1,hmac-sha1-96"

/* What libssh2 1.10 has with OpenSSL; each later one has these, and more. `allow` is what a server should have. */
static const struct {
        const char *what, *allow, *setting, *known;
} kinds[SSH_OFFER_LISTS] = {
        { "key exchange", "curve25519-sha256 or ecdh-sha2-nistp256", "KexAlgorithms",
          "curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,ecdh-sha2-nistp384,"
          "ecdh-sha2-nistp521,diffie-hellman-group-exchange-sha256,diffie-hellman-group16-sha512,"
          "diffie-hellman-group18-sha512,diffie-hellman-group14-sha256,diffie-hellman-group14-sha1,"
          "diffie-hellman-group-exchange-sha1,diffie-hellman-group1-sha1" },
        { "host key", "an ed25519 or ECDSA key", "HostKey, HostKeyAlgorithms",
          "ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,ssh-rsa,ssh-dss" },
        { "cipher", CIPHERS },
        { "cipher", CIPHERS },
        { "MAC", MACS },
        { "MAC", MACS },
};

static uint32_t read_uint32(const uint8_t *bytes) {
        return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Where the packet begins: 0 where the line before it has not come yet. */
static ssize_t find_packet(const uint8_t *bytes, size_t length) {
        size_t at = 0;

        while (at < length && at < GREETING_MAX) {
                const uint8_t *end = memchr(bytes + at, '\n', length - at);
                size_t next = end ? (size_t)(end - bytes) + 1 : 0;

                if (!end)
                        return length - at > GREETING_MAX ? -1 : 0;
                if (next - at > 4 && memcmp(bytes + at, "SSH-", 4) == 0)
                        return (ssize_t)next;
                at = next;
        }
        return at >= GREETING_MAX ? -1 : 0;
}

int ssh_offer_read(const uint8_t *bytes, size_t length, struct arena *arena, struct ssh_offer *ret) {
        ssize_t start = find_packet(bytes, length);
        struct ssh_offer offer;
        uint32_t size;

        if (start <= 0)
                return (int)start;
        bytes += start;
        length -= (size_t)start;
        if (length < 4)
                return 0;
        size = read_uint32(bytes);
        if (size < 2 + COOKIE || size > PACKET_MAX)
                return -1;
        if (length - 4 < size)
                return 0;
        /* The padding at the end is as good as what follows the lists. */
        if (bytes[5] != KEXINIT)
                return -1;
        bytes += 4 + 2 + COOKIE;
        length = size - 2 - COOKIE;
        for (size_t i = 0; i < SSH_OFFER_LISTS; i++) {
                uint32_t count = length < 4 ? UINT32_MAX : read_uint32(bytes);

                if (count > length - 4 || length < 4)
                        return -1;
                offer.lists[i] = git_clean_text(arena, arena_strndup(arena, (const char *)bytes + 4, count),
                                                PACKET_MAX);
                bytes += 4 + count;
                length -= 4 + count;
        }
        *ret = offer;
        return 1;
}

static bool lists_name(const char *names, const char *name, size_t length) {
        for (; *names; names += strcspn(names, ","), names += *names == ',') {
                if (strcspn(names, ",") == length && strncmp(names, name, length) == 0)
                        return true;
        }
        return false;
}

static bool have_common(const char *offered, const char *known) {
        for (; *offered; offered += strcspn(offered, ","), offered += *offered == ',') {
                if (lists_name(known, offered, strcspn(offered, ",")))
                        return true;
        }
        return false;
}

const char *ssh_offer_objection(const struct ssh_offer *offer, struct arena *arena) {
        const char *said = NULL;

        for (size_t i = 0; i < SSH_OFFER_LISTS; i++) {
                bool repeats = i > 0 && strcmp(kinds[i].what, kinds[i - 1].what) == 0 &&
                               !have_common(offer->lists[i - 1], kinds[i - 1].known);

                if (repeats || have_common(offer->lists[i], kinds[i].known))
                        continue;
                said = arena_printf(arena, "%s%sno %s in common: the server offers %s; allow %s there (%s)",
                                    said ? said : "", said ? "; " : "", kinds[i].what,
                                    *offer->lists[i] ? git_clean_text(arena, offer->lists[i], SHOWN_MAX)
                                                     : "none",
                                    kinds[i].allow, kinds[i].setting);
        }
        return said;
}

static int connect_to(const char *host, const char *port) {
        const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
        const struct timeval most = { .tv_sec = WAIT_MS / 1000 };
        struct addrinfo *found = NULL;
        int made = -1;

        if (getaddrinfo(host, port, &hints, &found) != 0)
                return -1;
        for (struct addrinfo *at = found; at && made < 0; at = at->ai_next) {
                made = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
                if (made < 0)
                        continue;
                if (setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)) < 0 ||
                    setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most)) < 0 ||
                    connect(made, at->ai_addr, at->ai_addrlen) < 0)
                        close_descriptor(&made);
        }
        freeaddrinfo(found);
        return made;
}

int ssh_offer_ask(const char *host, const char *port, struct arena *arena, struct ssh_offer *ret) {
        const int64_t until = clock_now_ms() + WAIT_MS;
        int server DESCRIPTOR_CLEANUP = connect_to(host, port);
        uint8_t *bytes = arena_alloc(arena, SSH_OFFER_MAX);
        size_t length = 0;
        int result = 0;

        if (server < 0 || descriptor_write(server, GREETING, strlen(GREETING)) < 0)
                return -1;
        while (result == 0 && length < SSH_OFFER_MAX && clock_now_ms() < until) {
                ssize_t count = read(server, bytes + length, SSH_OFFER_MAX - length);

                if (count <= 0)
                        return -1;
                length += (size_t)count;
                result = ssh_offer_read(bytes, length, arena, ret);
        }
        return result > 0 ? 0 : -1;
}

int ssh_offer_explain(const struct url *url, struct arena *arena, enum git_failure *ret_failure,
                      struct error *err) {
        const char *objection = NULL;
        struct ssh_offer offer;

        *ret_failure = GIT_UNREACHABLE;
        if (ssh_offer_ask(url->host, url->port ? url->port : "22", arena, &offer) == 0)
                objection = ssh_offer_objection(&offer, arena);
        if (!objection)
                return -1;
        *err = (struct error){ 0 };
        return FAIL(GIT_UNREACHABLE, "%s and libssh2, by which Berth speaks ssh, have %s", url->host,
                    objection);
}
