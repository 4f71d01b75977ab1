package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"wallfinder.dev/subjects/echo/payload"
)

const (
	packageName = "wallfinder.calls"
	serviceName = "Calls"
	fileName    = "calls.proto"
)

// unary are the methods with one message each way.
var unary = map[string]func(context.Context, *payload.Payload) (*payload.Payload, error){
	"One":      one,
	"Fail":     fail,
	"Metadata": tellMetadata,
	"Slow":     slow,
}

// streams are the others.
var streams = []grpc.StreamDesc{
	{StreamName: "Down", Handler: handler(down), ServerStreams: true},
	{StreamName: "Up", Handler: handler(up), ClientStreams: true},
	{StreamName: "Both", Handler: handler(both), ClientStreams: true, ServerStreams: true},
}

// register adds the service, and tells reflection of it.
func register(server *grpc.Server) error {
	service := &descriptorpb.ServiceDescriptorProto{Name: proto.String(serviceName)}
	message := proto.String("." + string((*payload.Payload)(nil).ProtoReflect().Descriptor().FullName()))
	method := func(name string, fromClient, fromServer bool) {
		service.Method = append(service.Method, &descriptorpb.MethodDescriptorProto{
			Name:            proto.String(name),
			InputType:       message,
			OutputType:      message,
			ClientStreaming: proto.Bool(fromClient),
			ServerStreaming: proto.Bool(fromServer),
		})
	}
	description := grpc.ServiceDesc{
		ServiceName: packageName + "." + serviceName,
		HandlerType: (*any)(nil),
		Streams:     streams,
		Metadata:    fileName,
	}
	for name, answer := range unary {
		method(name, false, false)
		description.Methods = append(description.Methods, grpc.MethodDesc{
			MethodName: name,
			Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				var message payload.Payload
				if err := decode(&message); err != nil {
					return nil, err
				}
				return answer(ctx, &message)
			},
		})
	}
	for _, stream := range streams {
		method(stream.StreamName, stream.ClientStreams, stream.ServerStreams)
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name:       proto.String(fileName),
		Package:    proto.String(packageName),
		Syntax:     proto.String("proto3"),
		Dependency: []string{payload.File_echo_proto.Path()},
		Service:    []*descriptorpb.ServiceDescriptorProto{service},
	}, protoregistry.GlobalFiles)
	if err != nil {
		return err
	}
	if err := protoregistry.GlobalFiles.RegisterFile(file); err != nil {
		return err
	}
	server.RegisterService(&description, struct{}{})
	return nil
}

// handler drops what no method here needs.
func handler(serve func(grpc.ServerStream) error) grpc.StreamHandler {
	return func(_ any, stream grpc.ServerStream) error { return serve(stream) }
}

func one(_ context.Context, message *payload.Payload) (*payload.Payload, error) {
	return message, nil
}

func fail(_ context.Context, message *payload.Payload) (*payload.Payload, error) {
	return nil, status.Error(codes.Code(message.Timestamp), message.Id)
}

func tellMetadata(ctx context.Context, message *payload.Payload) (*payload.Payload, error) {
	var said string
	if message.Id == ":deadline" {
		said = "other"
		if until, ok := ctx.Deadline(); !ok {
			said = "none"
		} else if left := time.Until(until); left > 59*time.Minute && left <= time.Hour {
			said = "hour"
		}
	} else {
		all, _ := metadata.FromIncomingContext(ctx)
		said = strings.Join(all.Get(message.Id), ",")
	}
	if said != string(message.Data) {
		return nil, status.Errorf(codes.FailedPrecondition, "%q, and not %q", said, message.Data)
	}
	return message, nil
}

func slow(ctx context.Context, message *payload.Payload) (*payload.Payload, error) {
	select {
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	case <-time.After(time.Duration(message.Timestamp) * time.Millisecond):
		return message, nil
	}
}

func down(stream grpc.ServerStream) error {
	var message payload.Payload
	if err := stream.RecvMsg(&message); err != nil {
		return err
	}
	for range message.Timestamp {
		if err := stream.SendMsg(&message); err != nil {
			return err
		}
	}
	return nil
}

func up(stream grpc.ServerStream) error {
	var message payload.Payload
	for count := int64(0); ; count++ {
		switch err := stream.RecvMsg(&message); {
		case errors.Is(err, io.EOF):
			message.Timestamp = count
			return stream.SendMsg(&message)
		case err != nil:
			return err
		}
	}
}

func both(stream grpc.ServerStream) error {
	for {
		var message payload.Payload
		switch err := stream.RecvMsg(&message); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := stream.SendMsg(&message); err != nil {
			return err
		}
	}
}
