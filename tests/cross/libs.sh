#!/bin/sh
# Builds the libraries that the program and its tests need, static and from Debian's sources, for
# a machine that has no packages of them. None of the tarballs but curl's brings a configure script,
# and what those would find out is written down here: it is the same for each Linux.
#
# usage: tests/cross/libs.sh CC AR TARBALLS PREFIX [HOST]
#
# With HOST, as configure scripts name it, libcurl with mbedTLS is built, too. CC may be several
# words. PREFIX gets include/ and lib/. What is built there already is kept.
set -eu
cc=$1
ar=$2
tarballs=$(realpath "$3")
mkdir -p "$4/include" "$4/lib"
prefix=$(realpath "$4")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# archive NAME FLAGS... -- SOURCE...: PREFIX/lib/libNAME.a of them.
# shellcheck disable=SC2086 # CC is words
archive() {
    name=$1
    shift
    flags=''
    while [ "$1" != -- ]; do
        flags="$flags $1"
        shift
    done
    shift
    objects=''
    for source in "$@"; do
        object=$scratch/$name-$(basename "$source" .c).o
        $cc -Os -g0 -pthread -fPIC -ffunction-sections -fdata-sections -D_GNU_SOURCE \
            -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64 -w $flags -c -o "$object" "$source"
        objects="$objects $object"
    done
    $ar rcs "$prefix/lib/lib$name.a" $objects
}

build_lmdb() {
    cd libraries/liblmdb
    archive lmdb -- mdb.c midl.c
    cp lmdb.h "$prefix/include"
}

build_bearssl() {
    # No cipher and no TLS: nothing here calls them.
    archive bearssl -Isrc -Iinc -- src/hash/*.c src/mac/hmac*.c src/kdf/*.c src/codec/*.c
    cp inc/*.h "$prefix/include"
}

build_fcgi() {
    for has in ARPA_INET_H LIMITS_H NETDB_H NETINET_IN_H SOCKLEN STRERROR SYS_PARAM_H \
        SYS_SOCKET_H SYS_TIME_H UNISTD_H; do
        echo "#define HAVE_$has 1"
    done >include/fcgi_config.h
    archive fcgi -Iinclude -- libfcgi/fcgiapp.c libfcgi/os_unix.c
    cp include/fastcgi.h include/fcgiapp.h include/fcgi_config.h "$prefix/include"
}

build_jansson() {
    sed -e 's/@json_inline@/inline/' -e 's/@json_have_[a-z_]*@/1/' -e 's/@[a-z_]*@/1/' \
        src/jansson_config.h.in >src/jansson_config.h
    : >src/jansson_private_config.h
    archive jansson -Isrc -DHAVE_STDINT_H=1 -DHAVE_UNISTD_H -DHAVE_FCNTL_H -DHAVE_SCHED_H \
        -DHAVE_SYS_STAT_H -DHAVE_SYS_TIME_H -DHAVE_SYS_TYPES_H -DHAVE_ENDIAN_H -DHAVE_OPEN \
        -DHAVE_CLOSE -DHAVE_READ -DHAVE_GETPID -DHAVE_GETTIMEOFDAY -DHAVE_SCHED_YIELD \
        -DHAVE_ATOMIC_BUILTINS -DUSE_URANDOM -- src/*.c
    cp src/jansson.h src/jansson_config.h "$prefix/include"
}

build_confuse() {
    cd src
    flex -P cfg_yy -o lexer.c lexer.l
    archive confuse -DPACKAGE_STRING='"confuse"' -DPACKAGE_VERSION='"3.3"' -DHAVE_STRINGS_H \
        -DHAVE_STRING_H -DHAVE_UNISTD_H -DHAVE_SYS_STAT_H -DHAVE_FMEMOPEN -DHAVE_REALLOCARRAY \
        -DHAVE_STRDUP -DHAVE_STRNDUP -DHAVE_STRCASECMP -- confuse.c lexer.c
    cp confuse.h "$prefix/include"
}

build_cmocka() {
    archive cmocka -Iinclude -DHAVE_MALLOC_H -DHAVE_INTTYPES_H -DHAVE_SIGNAL_H \
        -DHAVE_STRINGS_H -DHAVE_GCC_THREAD_LOCAL_STORAGE -DHAVE_CLOCK_REALTIME \
        -DHAVE_SIGLONGJMP -DHAVE_STRSIGNAL -DHAVE_STRUCT_TIMESPEC -DHAVE_SNPRINTF \
        -DHAVE_VSNPRINTF -- src/cmocka.c
    cp include/cmocka.h "$prefix/include"
}

build_mbed() {
    archive mbed -Iinclude -- library/*.c
    cp -r include/mbedtls include/psa "$prefix/include"
    # By the names that curl's configure looks for.
    for part in tls x509 crypto; do cp "$prefix/lib/libmbed.a" "$prefix/lib/libmbed$part.a"; done
}

# The one that brings a configure script. Of its protocols HTTP is enough.
build_curl() {
    off=''
    for feature in shared ldap ftp file dict telnet tftp pop3 imap smtp gopher mqtt rtsp smb ntlm manual; do
        off="$off --disable-$feature"
    done
    for library in zlib brotli zstd libpsl libidn2 nghttp2 librtmp libssh2; do
        off="$off --without-$library"
    done
    # shellcheck disable=SC2086 # words
    ./configure -q --host="$host" CC="$cc" AR="$ar" CFLAGS='-Os -ffunction-sections -fdata-sections -fPIC' \
        --with-mbedtls="$prefix" --with-ca-bundle=/etc/ssl/certs/ca-certificates.crt $off
    make -s -j"$(nproc)" -C lib
    cp lib/.libs/libcurl.a "$prefix/lib"
    rm -rf "$prefix/include/curl"
    cp -r include/curl "$prefix/include"
}

# unpacked DIRECTORY PATTERN: in DIRECTORY what the one tarball of that name has.
unpacked() {
    mkdir "$1"
    # shellcheck disable=SC2086 # a pattern
    set -- "$1" "$tarballs"/$2
    tar -xf "$2" -C "$1" --strip-components=1
}

host=${5:-}
for name in lmdb bearssl fcgi jansson confuse cmocka ${host:+mbed curl}; do
    [ ! -e "$prefix/lib/lib$name.a" ] || continue
    unpacked "$scratch/$name" "*$name*.orig.tar.?z"
    (cd "$scratch/$name" && "build_$name")
done
