# mrt in a container: built in one Debian, run in another that has what it links.
#
#   docker build -t mrt .
#   docker run --rm -it mrt                                   # the prompt
#   docker run --rm -v "$PWD:/work" mrt train.lua             # a script of one's own
#   docker run --rm mrt /usr/local/share/doc/mrt/examples/gpt.lua --steps 200
#
# Ranks of one host share memory: give them some with --shm-size 1g.
#
# SPDX-License-Identifier: MIT
FROM debian:bookworm-slim AS build
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends \
      gcc libc6-dev cmake ninja-build pkg-config liblua5.4-dev libedit-dev \
      libjansson-dev libutf8proc-dev libpcre2-dev zlib1g-dev
COPY . /src
# Kernels for every instruction set: the image runs elsewhere.
ARG MRT_ISAS="base;avx2;avx512"
RUN cmake -S /src -B /build -G Ninja -DMRT_BUILD_TESTS=OFF -DMRT_SHARED=ON \
      "-DMRT_ISAS=$MRT_ISAS" && \
    cmake --build /build && \
    for part in runtime lua doc; do \
      DESTDIR=/stage cmake --install /build --component $part --strip; \
    done

FROM debian:bookworm-slim
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends \
      lua5.4 liblua5.4-0 libedit2 libjansson4 libutf8proc2 libpcre2-8-0 zlib1g && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY --from=build /stage/ /
RUN ldconfig && mrt -e 'assert(require("mrt").ones(3):sum():item() == 3)'
WORKDIR /work
ENTRYPOINT ["mrt"]
