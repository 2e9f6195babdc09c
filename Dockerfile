# docker build .                  the official image, with pg_ringctl
# docker build --target volume .  the extension's files alone: an image volume for CloudNativePG, from 18 on

ARG PG_MAJOR=18
ARG BASE=docker.io/library/postgres:$PG_MAJOR

FROM $BASE AS build
ARG PG_MAJOR
ENV PG_CONFIG=/usr/lib/postgresql/$PG_MAJOR/bin/pg_config
# hadolint ignore=DL3008
RUN apt-get update && \
	apt-get install -y --no-install-recommends gcc libc6-dev make "postgresql-server-dev-$PG_MAJOR" && \
	rm -rf /var/lib/apt/lists/*
COPY . /src
WORKDIR /src
RUN make clean && make with_llvm=no && \
	make with_llvm=no install DESTDIR=/server && \
	make with_llvm=no install DESTDIR=/volume pkglibdir=/lib datadir=/share && \
	install -D -m 644 LICENSE /volume/licenses/pg_ringctl/LICENSE

FROM scratch AS volume
COPY --from=build /volume/ /
USER 65532:65532

FROM $BASE
COPY --from=build /server/ /
