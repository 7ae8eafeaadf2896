/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pair is an SSL_CTX. OpenSSL counts the users of one, so one that was replaced goes with its
 * last connection.
 *
 * Bytes go by a BIO of our own: OpenSSL's for sockets writes without MSG_NOSIGNAL, and a client that leaves would end the process.
 * Of a socket that blocks nothing has to be tried again: what fails once has failed.
 */
#include "server/tls.h"

#include "base/files.h"
#include "base/library.h"

#include <errno.h>
#include <limits.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#define FILE_BYTES_MAX ((size_t)1 << 20)
#define CHAIN_MAX 16
/* TLS 1.2: all of these are authenticated, and each connection has a key of its own. Those of 1.3 are, without being named. */
#define CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"

#define SSL_SYMBOLS(X)                \
        X(ASN1_TIME_to_tm)            \
        X(BIO_clear_flags)            \
        X(BIO_free)                   \
        X(BIO_get_data)               \
        X(BIO_get_new_index)          \
        X(BIO_meth_new)               \
        X(BIO_meth_set_ctrl)          \
        X(BIO_meth_set_read)          \
        X(BIO_meth_set_write)         \
        X(BIO_new)                    \
        X(BIO_new_mem_buf)            \
        X(BIO_set_data)               \
        X(BIO_set_init)               \
        X(ERR_clear_error)            \
        X(ERR_peek_last_error)        \
        X(ERR_reason_error_string)    \
        X(EVP_PKEY_free)              \
        X(PEM_read_bio_PrivateKey)    \
        X(PEM_read_bio_X509)          \
        X(SSL_CTX_check_private_key)  \
        X(SSL_CTX_ctrl)               \
        X(SSL_CTX_free)               \
        X(SSL_CTX_new)                \
        X(SSL_CTX_set_alpn_select_cb) \
        X(SSL_CTX_set_cipher_list)    \
        X(SSL_CTX_set_num_tickets)    \
        X(SSL_CTX_set_options)        \
        X(SSL_CTX_use_PrivateKey)     \
        X(SSL_CTX_use_certificate)    \
        X(SSL_accept)                 \
        X(SSL_free)                   \
        X(SSL_get_error)              \
        X(SSL_new)                    \
        X(SSL_read)                   \
        X(SSL_set_bio)                \
        X(SSL_shutdown)               \
        X(SSL_write)                  \
        X(TLS_server_method)          \
        X(X509_free)                  \
        X(X509_get0_notAfter)

SSL_SYMBOLS(LIBRARY_POINTER)
static const struct library_symbol ssl_symbols[] = { SSL_SYMBOLS(LIBRARY_SYMBOL) };
static struct library ssl = LIBRARY(SSL_SONAME, "libssl3", "TLS", ssl_symbols);

/* Which files lay there: of one that was replaced or written some of it differs. */
struct sighting {
        dev_t device;
        ino_t inode;
        off_t size;
        struct timespec written, changed;
};

struct pair {
        SSL_CTX *context;
        int64_t expires_s;
};

struct tls {
        char *files[2]; /* of the certificate, of the key */
        struct sighting served[2], last[2];
        pthread_mutex_t lock; /* of all below */
        struct pair pair;
};

struct tls_line {
        SSL *ssl;
        int socket;
        bool ended;  /* the client sends no more */
        bool broken; /* nothing may be asked of `ssl` any more */
};

/* --- bytes --- */

static int write_socket(BIO *bio, const char *bytes, int length) {
        const struct tls_line *line = sym_BIO_get_data(bio);
        ssize_t sent;

        sym_BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
        do
                sent = send(line->socket, bytes, (size_t)length, MSG_NOSIGNAL);
        while (sent < 0 && errno == EINTR);
        return (int)sent;
}

static int read_socket(BIO *bio, char *bytes, int size) {
        const struct tls_line *line = sym_BIO_get_data(bio);
        ssize_t count;

        sym_BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
        do
                count = recv(line->socket, bytes, (size_t)size, 0);
        while (count < 0 && errno == EINTR);
        return (int)count;
}

static long control_socket(BIO *bio, int command, long number, void *pointer) {
        (void)bio, (void)number, (void)pointer;
        return command == BIO_CTRL_FLUSH; /* nothing is kept here */
}

static BIO_METHOD *socket_method;

static void make_method(void) {
        socket_method = sym_BIO_meth_new(sym_BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "berth socket");
        if (!socket_method || sym_BIO_meth_set_write(socket_method, write_socket) != 1 ||
            sym_BIO_meth_set_read(socket_method, read_socket) != 1 ||
            sym_BIO_meth_set_ctrl(socket_method, control_socket) != 1)
                abort();
}

static BIO *new_socket_bio(struct tls_line *line) {
        static pthread_once_t made = PTHREAD_ONCE_INIT;
        BIO *bio;

        pthread_once(&made, make_method);
        if (!(bio = sym_BIO_new(socket_method)))
                abort();
        sym_BIO_set_data(bio, line);
        sym_BIO_set_init(bio, 1);
        return bio;
}

/* --- a pair --- */

/*
 * OpenSSL's reason. It is taken off the thread's queue, so that the next user of OpenSSL does not
 * find it.
 */
static const char *reason(void) {
        const char *text = sym_ERR_reason_error_string(sym_ERR_peek_last_error());

        sym_ERR_clear_error();
        return text ? text : "OpenSSL does not say why";
}

/*
 * A client that offers nothing gets HTTP/1.1; a client that wants only something else is refused at
 * once.
 */
static int choose_protocol(SSL *connection, const unsigned char **ret, unsigned char *ret_length,
                           const unsigned char *offered, unsigned length, void *context) {
        static const char wanted[] = "http/1.1";

        (void)connection, (void)context;
        for (unsigned at = 0; at < length && offered[at] < length - at; at += 1U + offered[at]) {
                if (offered[at] != sizeof(wanted) - 1 || memcmp(offered + at + 1, wanted, offered[at]) != 0)
                        continue;
                *ret = offered + at + 1;
                *ret_length = offered[at];
                return SSL_TLSEXT_ERR_OK;
        }
        return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* Called for an encrypted key: a daemon has no user who could type. */
static int no_passphrase(char *buffer, int size, int for_writing, void *context) {
        (void)buffer, (void)size, (void)for_writing, (void)context;
        return -1;
}

static int64_t expiry_of(const X509 *certificate) {
        struct tm time = { 0 };

        return sym_ASN1_TIME_to_tm(sym_X509_get0_notAfter(certificate), &time) == 1 ? (int64_t)timegm(&time)
                                                                                    : 0;
}

/* The first is the server's own, and the others are sent with it. */
static int use_certificates(struct pair *pair, const char *path, struct error *err) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        size_t count = 0;
        X509 *certificate;
        BIO *bio;

        if (file_read(path, FILE_BYTES_MAX, &text, err) < 0)
                return -1;
        if (!(bio = sym_BIO_new_mem_buf(strbuf_text(&text), (int)text.length)))
                abort();
        while (count <= CHAIN_MAX && (certificate = sym_PEM_read_bio_X509(bio, NULL, no_passphrase, NULL))) {
                int64_t expires_s = expiry_of(certificate);
                bool used = count == 0 ? sym_SSL_CTX_use_certificate(pair->context, certificate) == 1
                                       : sym_SSL_CTX_ctrl(pair->context, SSL_CTRL_CHAIN_CERT, 1,
                                                          certificate) == 1;

                sym_X509_free(certificate);
                if (!used) {
                        count = 0;
                        break;
                }
                if (count++ == 0)
                        pair->expires_s = expires_s;
        }
        sym_BIO_free(bio);
        if (count == 0)
                return error_set(err, "%s holds no certificate that can be used: %s", path, reason());
        sym_ERR_clear_error(); /* that there is not another one */
        if (count > CHAIN_MAX)
                return error_set(err, "%s holds more than %d certificates", path, CHAIN_MAX);
        return 0;
}

static int use_key(struct pair *pair, const char *path, struct error *err) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_SECRET;
        EVP_PKEY *key = NULL;
        bool used = false;
        BIO *bio;

        if (file_check_private(path, err) < 0 || file_read(path, FILE_BYTES_MAX, &text, err) < 0)
                return -1;
        if (!(bio = sym_BIO_new_mem_buf(strbuf_text(&text), (int)text.length)))
                abort();
        key = sym_PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
        sym_BIO_free(bio);
        strbuf_release(&text);
        if (!key) {
                (void)reason();
                return error_set(err, "%s holds no private key in PEM, or one with a passphrase", path);
        }
        used = sym_SSL_CTX_use_PrivateKey(pair->context, key) == 1 &&
               sym_SSL_CTX_check_private_key(pair->context) == 1;
        sym_EVP_PKEY_free(key);
        if (!used)
                return error_set(err, "%s is not the key of that certificate: %s", path, reason());
        return 0;
}

static int load_pair(const struct tls *tls, struct pair *ret, struct error *err) {
        struct pair pair = { .context = sym_SSL_CTX_new(sym_TLS_server_method()) };

        if (!pair.context)
                return error_set(err, "TLS cannot be had: %s", reason());
        sym_SSL_CTX_set_options(pair.context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                                      SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
        sym_SSL_CTX_set_alpn_select_cb(pair.context, choose_protocol, NULL);
        /* An idle connection keeps no buffers. */
        (void)sym_SSL_CTX_ctrl(pair.context, SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS, NULL);
        (void)sym_SSL_CTX_ctrl(pair.context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
        if (sym_SSL_CTX_ctrl(pair.context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL) != 1 ||
            sym_SSL_CTX_set_cipher_list(pair.context, CIPHERS) != 1 ||
            sym_SSL_CTX_set_num_tickets(pair.context, 0) != 1) {
                error_set(err, "TLS cannot be had: %s", reason());
                sym_SSL_CTX_free(pair.context);
                return -1;
        }
        if (use_certificates(&pair, tls->files[0], err) < 0 || use_key(&pair, tls->files[1], err) < 0) {
                sym_SSL_CTX_free(pair.context);
                return -1;
        }
        *ret = pair;
        return 0;
}

/* --- the one that is served --- */

/* Of a file that is not there all is 0. */
static void see_files(const struct tls *tls, struct sighting ret[2]) {
        memset(ret, 0, 2 * sizeof(*ret));
        for (size_t i = 0; i < 2; i++) {
                struct stat status;

                if (stat(tls->files[i], &status) < 0)
                        continue;
                ret[i].device = status.st_dev;
                ret[i].inode = status.st_ino;
                ret[i].size = status.st_size;
                ret[i].written = status.st_mtim;
                ret[i].changed = status.st_ctim;
        }
}

int tls_open(const char *certificate_file, const char *key_file, struct tls **ret, struct error *err) {
        struct tls *tls;

        if (library_load(&ssl, err) < 0)
                return -1;
        tls = calloc(1, sizeof(*tls));
        if (!tls || !(tls->files[0] = strdup(certificate_file)) || !(tls->files[1] = strdup(key_file)) ||
            pthread_mutex_init(&tls->lock, NULL) != 0)
                abort();
        see_files(tls, tls->served);
        memcpy(tls->last, tls->served, sizeof(tls->last));
        if (load_pair(tls, &tls->pair, err) < 0) {
                tls_close(tls);
                return error_context(err, "tls");
        }
        *ret = tls;
        return 0;
}

void tls_close(struct tls *tls) {
        if (!tls)
                return;
        sym_SSL_CTX_free(tls->pair.context);
        pthread_mutex_destroy(&tls->lock);
        free(tls->files[0]);
        free(tls->files[1]);
        free(tls);
}

/* A renewal writes two files, one after the other: they are read once two looks found the same. */
int tls_look(struct tls *tls, struct error *err) {
        struct sighting found[2];
        struct pair pair, before;
        bool rests;

        see_files(tls, found);
        rests = memcmp(found, tls->last, sizeof(found)) == 0;
        memcpy(tls->last, found, sizeof(found));
        if (!rests || memcmp(found, tls->served, sizeof(found)) == 0)
                return 0;
        memcpy(tls->served, found, sizeof(found));
        if (load_pair(tls, &pair, err) < 0)
                return -1;
        pthread_mutex_lock(&tls->lock);
        before = tls->pair;
        tls->pair = pair;
        pthread_mutex_unlock(&tls->lock);
        sym_SSL_CTX_free(before.context);
        return 1;
}

int64_t tls_expires_s(struct tls *tls) {
        int64_t expires_s;

        pthread_mutex_lock(&tls->lock);
        expires_s = tls->pair.expires_s;
        pthread_mutex_unlock(&tls->lock);
        return expires_s;
}

/* --- one connection --- */

struct tls_line *tls_accept(struct tls *tls, int socket) {
        struct tls_line *line = calloc(1, sizeof(*line));
        BIO *bio;

        if (!line)
                abort();
        line->socket = socket;
        pthread_mutex_lock(&tls->lock);
        line->ssl = sym_SSL_new(tls->pair.context);
        pthread_mutex_unlock(&tls->lock);
        if (!line->ssl)
                abort();
        bio = new_socket_bio(line);
        sym_SSL_set_bio(line->ssl, bio, bio);
        if (sym_SSL_accept(line->ssl) == 1)
                return line;
        sym_ERR_clear_error();
        tls_line_free(line);
        return NULL;
}

void tls_line_free(struct tls_line *line) {
        if (!line)
                return;
        sym_SSL_free(line->ssl);
        free(line);
}

/* Of an error it is only of interest whether the client has ended in order: OpenSSL forbids to go on after any other. */
static void note_end(struct tls_line *line, int result) {
        line->ended = true;
        line->broken = sym_SSL_get_error(line->ssl, result) != SSL_ERROR_ZERO_RETURN;
        sym_ERR_clear_error();
}

size_t tls_read(struct tls_line *line, void *bytes, size_t size) {
        int count;

        if (line->ended || size == 0)
                return 0;
        count = sym_SSL_read(line->ssl, bytes, size < INT_MAX ? (int)size : INT_MAX);
        if (count > 0)
                return (size_t)count;
        note_end(line, count);
        return 0;
}

int tls_write(struct tls_line *line, const void *bytes, size_t length) {
        const char *at = bytes;

        while (length > 0 && !line->broken) {
                int sent = sym_SSL_write(line->ssl, at, length < INT_MAX ? (int)length : INT_MAX);

                if (sent <= 0) {
                        note_end(line, sent);
                        line->broken = true;
                        break;
                }
                at += sent;
                length -= (size_t)sent;
        }
        return length > 0 ? -1 : 0;
}

void tls_finish(struct tls_line *line) {
        if (!line->broken && sym_SSL_shutdown(line->ssl) < 0)
                note_end(line, -1);
        line->broken = true;
}
