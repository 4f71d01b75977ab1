module wallfinder.dev/subjects

go 1.26.0

require (
	github.com/andybalholm/brotli v1.2.2
	github.com/brianvoe/gofakeit/v7 v7.18.1
	github.com/gofiber/fiber/v3 v3.1.0
	github.com/klauspost/compress v1.19.1
	github.com/valyala/fasthttp v1.73.0 // later ones need go-brrr, which proxy.golang.org does not serve
	golang.org/x/sys v0.49.0
)

require (
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/gofiber/schema v1.7.0 // indirect
	github.com/gofiber/utils/v2 v2.0.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/philhofer/fwd v1.2.0 // indirect
	github.com/tinylib/msgp v1.6.3 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
)
