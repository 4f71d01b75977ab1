// Package secure puts TLS on a subject's listener: by a certificate of the
// user's, or by one that is made for the occasion.
package secure

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// Usage explains the flags, for the usage of a subject.
const Usage = `  --tls                  serve under TLS, by a certificate made for this run
  --tls-cert-out FILE    write that certificate there, for a client's --cacert
  --tls-cert FILE        serve under TLS by this certificate (PEM)
  --tls-key FILE         its key (PEM)
`

// Settings say whether and how. The zero value is in the clear.
type Settings struct {
	on      bool
	certOut string
	cert    string
	key     string
}

// Define adds the flags.
func (s *Settings) Define(flags *flag.FlagSet) {
	flags.BoolVar(&s.on, "tls", false, "")
	flags.StringVar(&s.certOut, "tls-cert-out", "", "")
	flags.StringVar(&s.cert, "tls-cert", "", "")
	flags.StringVar(&s.key, "tls-key", "", "")
}

// Check refuses flags that do not go together.
func (s Settings) Check() error {
	switch {
	case (s.cert == "") != (s.key == ""):
		return errors.New("--tls-cert and --tls-key go together")
	case s.certOut != "" && (s.cert != "" || !s.on):
		return errors.New("--tls-cert-out needs --tls, and no --tls-cert")
	}
	return nil
}

// On says whether there is TLS.
func (s Settings) On() bool { return s.on || s.cert != "" }

// Listener is the listener under TLS, which offers the protocols by ALPN, the
// best first; or as it is, where there is none.
func (s Settings) Listener(listener net.Listener, protocols ...string) (net.Listener, error) {
	if !s.On() {
		return listener, nil
	}
	certificate, err := s.certificate(listener.Addr())
	if err != nil {
		return nil, err
	}
	return tls.NewListener(listener, &tls.Config{
		Certificates: []tls.Certificate{certificate},
		NextProtos:   protocols,
		MinVersion:   tls.VersionTLS12,
	}), nil
}

func (s Settings) certificate(address net.Addr) (tls.Certificate, error) {
	if s.cert != "" {
		certificate, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return certificate, fmt.Errorf("the certificate: %w", err)
		}
		return certificate, nil
	}
	certificate, err := made(address)
	if err == nil && s.certOut != "" {
		block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
		err = os.WriteFile(s.certOut, block, 0o644)
	}
	return certificate, err
}

// made signs itself, for the names that a subject is asked by.
func made(address net.Addr) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := x509.Certificate{
		SerialNumber:          big.NewInt(now.UnixNano()),
		Subject:               pkix.Name{CommonName: "subject"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(30 * 24 * time.Hour),
		DNSNames:              []string{"subject", "localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if tcp, ok := address.(*net.TCPAddr); ok && !tcp.IP.IsUnspecified() {
		template.IPAddresses = append(template.IPAddresses, tcp.IP)
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
