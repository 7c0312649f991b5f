ARG GO_IMAGE=golang:1.26-bookworm

FROM ${GO_IMAGE} AS build
WORKDIR /src
# Modules first: they change less often than the code, and stay cached.
COPY go.mod go.sum ./
RUN go mod download
COPY api ./api
COPY cmd ./cmd
COPY internal ./internal
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=${VERSION}" -o /decider ./cmd/decider

FROM scratch
# For a Redis behind TLS (rediss://).
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /decider /decider
# Nobody's number; there is no /etc/passwd to look a name up in.
USER 65532:65532
EXPOSE 8080
# The image has no shell and no curl: the binary asks its own /readyz.
HEALTHCHECK --interval=5s --timeout=2s --start-period=5s --retries=3 CMD ["/decider", "healthcheck"]
ENTRYPOINT ["/decider"]
CMD ["serve"]
