package secure

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func parsed(t *testing.T, args ...string) Settings {
	t.Helper()
	var s Settings
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	s.Define(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestACertificateThatWasMadeIsGoodForItsNames(t *testing.T) {
	out := filepath.Join(t.TempDir(), "cert.pem")
	settings := parsed(t, "--tls", "--tls-cert-out", out)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := settings.Listener(plain, "h2", "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _ = conn.(*tls.Conn).Handshake() }()
		}
	}()
	written, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(written) {
		t.Fatal("what was written is no certificate")
	}
	for _, name := range []string{"subject", "localhost", "127.0.0.1"} {
		config := &tls.Config{RootCAs: roots, ServerName: name, NextProtos: []string{"h2"}}
		conn, err := tls.Dial("tcp", listener.Addr().String(), config)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := conn.ConnectionState().NegotiatedProtocol; got != "h2" {
			t.Errorf("%s: protocol %q", name, got)
		}
		conn.Close()
	}
}

func TestWithoutTheFlagNothingIsEncrypted(t *testing.T) {
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	listener, err := parsed(t).Listener(plain)
	if err != nil || listener != net.Listener(plain) {
		t.Fatalf("%v, %v", listener, err)
	}
}

func TestFlagsThatDoNotGoTogetherAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"--tls-cert", "c.pem"},
		{"--tls-key", "k.pem"},
		{"--tls-cert-out", "c.pem"},
		{"--tls-cert", "c", "--tls-key", "k", "--tls-cert-out", "o"},
	} {
		if parsed(t, args...).Check() == nil {
			t.Errorf("%v was accepted", args)
		}
	}
	for _, args := range [][]string{{}, {"--tls"}, {"--tls-cert", "c", "--tls-key", "k"}} {
		if err := parsed(t, args...).Check(); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
}
