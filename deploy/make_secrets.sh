#!/bin/sh
# make_secrets.sh FOLDER: what compose.yaml and kubernetes.yaml take for secrets, each its own file; what is there stays.
# They belong to the account of the image (uid 10001), so that only root can make them.
set -eu
[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
umask 077
mkdir -p "$1"
cd "$1"
random() { openssl rand -hex "$1"; }
[ -e database ] || random 24 > database
[ -e prefect ] || printf 'steward:%s\n' "$(random 24)" > prefect
[ -e steward ] || random 32 > steward
[ -e dask_key ] || openssl req -x509 -newkey rsa:3072 -nodes -days 365 -subj "/CN=anonpipe dask" \
    -keyout dask_key -out dask_cert 2> /dev/null
chown 10001 prefect steward dask_key dask_cert database
chmod 644 database # for the account of Postgres; the folder keeps others out
