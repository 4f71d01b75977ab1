module wallfinder.dev/wire/go_server

go 1.26.0
