package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// pki is a directory with the certificates of one cluster: ca, server, proxy (front proxy) and the key sa.key that signs
// service account tokens. The authority's own key is never written.
type pki struct {
	dir string
	ca  []byte // the authority's certificate, PEM
}

type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

func makePKI(dir string) (*pki, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, encoded, err := makeAuthority()
	if err != nil {
		return nil, err
	}
	p := &pki{dir, encoded}
	if err := os.WriteFile(p.file("ca.crt"), encoded, 0o600); err != nil {
		return nil, err
	}
	if err := p.issue(root, "server", x509.ExtKeyUsageServerAuth); err != nil {
		return nil, err
	}
	if err := p.issue(root, "proxy", x509.ExtKeyUsageClientAuth); err != nil {
		return nil, err
	}
	return p, p.makeServiceAccountKey()
}

func (p *pki) file(name string) string { return filepath.Join(p.dir, name) }

func makeAuthority() (authority, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, nil, err
	}
	template := certificate("weir real suite", 1)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return authority{}, nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	return authority{parsed, key}, encode("CERTIFICATE", der), err
}

func certificate(name string, serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Minute),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}

// issue writes name.crt and name.key; the names and addresses are those of every listener of the suite.
func (p *pki) issue(root authority, name string, usage x509.ExtKeyUsage) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := certificate(name, time.Now().UnixNano())
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{usage}
	template.DNSNames = []string{"localhost"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	der, err := x509.CreateCertificate(rand.Reader, template, root.certificate, key.Public(), root.key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(p.file(name+".crt"), encode("CERTIFICATE", der), 0o600); err != nil {
		return err
	}
	return p.writeKey(name+".key", key)
}

func (p *pki) makeServiceAccountKey() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	return p.writeKey("sa.key", key)
}

func (p *pki) writeKey(name string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(p.file(name), encode("PRIVATE KEY", der), 0o600)
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
