# The image of a release: descartes with git and the sandbox. An agent comes on top, in an image of its own:
#   FROM ghcr.io/OWNER/descartes
#   RUN apk add nodejs npm && npm install -g @anthropic-ai/claude-code
# goreleaser puts the programs where TARGETPLATFORM says.
FROM alpine:3.22
RUN apk add --no-cache bash bubblewrap ca-certificates git openssh-client
ARG TARGETPLATFORM
COPY ${TARGETPLATFORM}/descartes /usr/local/bin/descartes
WORKDIR /work
ENTRYPOINT ["descartes"]
