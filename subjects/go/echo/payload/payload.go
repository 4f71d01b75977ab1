// Package payload is the message of the echo, and its service, generated from
// echo.proto.
package payload

// protoc of Debian's protobuf-compiler; plugins of the versions in go.mod and below.
//
//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative echo.proto
