/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SSL_accept() on bytes in memory reads records, puts the message together, checks its form and its extensions (none twice), and
 * calls back before it looks at anything else. The callback decides, and breaks off: there is no certificate and no key here,
 * and nothing is ever answered.
 */
#include "egress/hello.h"

#include "base/library.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define EXTENSION_ECH 0xfe0d
#define EXTENSION_ESNI 0xffce
#define NAME_OF_HOST 0

#define SSL_SYMBOLS(X)                 \
        X(BIO_new)                     \
        X(BIO_s_mem)                   \
        X(BIO_s_null)                  \
        X(BIO_write)                   \
        X(ERR_clear_error)             \
        X(SSL_CTX_ctrl)                \
        X(SSL_CTX_add_custom_ext)      \
        X(SSL_CTX_new)                 \
        X(SSL_CTX_set_client_hello_cb) \
        X(SSL_accept)                  \
        X(SSL_client_hello_get0_ext)   \
        X(SSL_client_hello_isv2)       \
        X(SSL_ctrl)                    \
        X(SSL_free)                    \
        X(SSL_get_error)               \
        X(SSL_new)                     \
        X(SSL_set_bio)                 \
        X(TLS_server_method)

SSL_SYMBOLS(LIBRARY_POINTER)
static const struct library_symbol ssl_symbols[] = { SSL_SYMBOLS(LIBRARY_SYMBOL) };
static struct library ssl = LIBRARY(SSL_SONAME, "libssl3", "TLS", ssl_symbols);

/* What all hellos share: read only, after hello_load(). */
static SSL_CTX *context;
/* The one that SSL_accept() is called for: OpenSSL's callback has one argument for all connections, and there is one thread. */
static struct hello *read_now;

struct hello {
        const char *host;
        SSL *connection;
        BIO *input; /* the connection's */
        size_t read;
        bool named;
        const char *why;
};

/* RFC 6066, 3: a list of two bytes of length, with one name: its type, two bytes of length, the name. */
static bool names_host(const unsigned char *bytes, size_t length, const char *host) {
        size_t host_length = strlen(host);

        return length == host_length + 5 && (size_t)(bytes[0] << 8 | bytes[1]) == host_length + 3 &&
               bytes[2] == NAME_OF_HOST && (size_t)(bytes[3] << 8 | bytes[4]) == host_length &&
               strncasecmp((const char *)bytes + 5, host, host_length) == 0;
}

static int on_client_hello(SSL *connection, int *alert, void *argument) {
        struct hello *hello = read_now;
        const unsigned char *name, *ignored;
        size_t length;

        (void)alert;
        (void)argument;
        if (sym_SSL_client_hello_isv2(connection))
                hello->why = "a ClientHello of SSL 2 names no server";
        else if (sym_SSL_client_hello_get0_ext(connection, EXTENSION_ECH, &ignored, &length) ||
                 sym_SSL_client_hello_get0_ext(connection, EXTENSION_ESNI, &ignored, &length))
                hello->why = "the ClientHello hides the server's name (ECH)";
        else if (!sym_SSL_client_hello_get0_ext(connection, TLSEXT_TYPE_server_name, &name, &length))
                hello->why = "the ClientHello names no server";
        else if (!names_host(name, length, hello->host))
                hello->why = "the ClientHello names another server than the tunnel is for";
        else
                hello->named = true;
        return SSL_CLIENT_HELLO_ERROR;
}

int hello_load(struct error *err) {
        if (library_load(&ssl, err) < 0)
                return -1;
        if (!context)
                context = sym_SSL_CTX_new(sym_TLS_server_method());
        if (!context)
                return error_set(err, "OpenSSL cannot read TLS here");
        sym_SSL_CTX_set_client_hello_cb(context, on_client_hello, NULL);
        /* An extension that it does not know it does not show either. A version that knows ECH by itself refuses this, and shows it. */
        (void)sym_SSL_CTX_add_custom_ext(context, EXTENSION_ECH, SSL_EXT_CLIENT_HELLO, NULL, NULL, NULL, NULL,
                                         NULL);
        (void)sym_SSL_CTX_add_custom_ext(context, EXTENSION_ESNI, SSL_EXT_CLIENT_HELLO, NULL, NULL, NULL,
                                         NULL, NULL);
        /* The version is for the server to judge. */
        (void)sym_SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, 0, NULL);
        return 0;
}

struct hello *hello_new(const char *host) {
        struct hello *hello = calloc(1, sizeof(*hello));
        BIO *output = sym_BIO_new(sym_BIO_s_null());

        if (!hello || !output || !(hello->input = sym_BIO_new(sym_BIO_s_mem())) ||
            !(hello->connection = sym_SSL_new(context)))
                abort();
        hello->host = host;
        sym_SSL_set_bio(hello->connection, hello->input, output);
        return hello;
}

void hello_free(struct hello *hello) {
        if (!hello)
                return;
        sym_SSL_free(hello->connection);
        free(hello);
}

enum hello_answer hello_read(struct hello *hello, const char *bytes, size_t length, const char **ret_why) {
        int result;

        hello->read += length;
        if (length > 0 && sym_BIO_write(hello->input, bytes, (int)length) != (int)length)
                abort();
        read_now = hello;
        sym_ERR_clear_error();
        result = sym_SSL_accept(hello->connection);
        read_now = NULL;
        if (hello->named)
                return HELLO_NAMED;
        *ret_why = hello->why ? hello->why : "what came is no ClientHello of TLS";
        if (hello->why || result > 0 || sym_SSL_get_error(hello->connection, result) != SSL_ERROR_WANT_READ)
                return HELLO_REFUSED;
        *ret_why = "the ClientHello is too long";
        return hello->read > HELLO_MAX ? HELLO_REFUSED : HELLO_MORE;
}
