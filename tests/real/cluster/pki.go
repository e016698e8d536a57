package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// pki is a directory with the certificates of one cluster: ca, server, front-proxy-ca, proxy (front proxy) and the key sa.key
// that signs service account tokens. The authorities' own keys are never written.
type pki struct {
	dir     string
	ca      []byte // the authority's certificate, PEM
	clients authority
	proxies authority
	others  authority // nobody trusts it
}

type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

func makePKI(dir string) (*pki, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	p := &pki{dir: dir}
	for _, one := range []struct {
		file string
		to   *authority
	}{{"ca.crt", &p.clients}, {"front-proxy-ca.crt", &p.proxies}, {"other-ca.crt", &p.others}} {
		root, encoded, err := makeAuthority()
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(p.file(one.file), encoded, 0o600); err != nil {
			return nil, err
		}
		if *one.to = root; p.ca == nil {
			p.ca = encoded
		}
	}
	if err := p.issue(p.clients, "server", x509.ExtKeyUsageServerAuth); err != nil {
		return nil, err
	}
	if err := p.issue(p.proxies, "proxy", x509.ExtKeyUsageClientAuth); err != nil {
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

// Shown is a certificate that a client of the suite shows.
type Shown struct {
	Name   string
	Groups []string
	UID    string // "" for none
	// Of is whose certificate it is: that of the clients' authority, unless it says otherwise.
	Of      Authority
	Expired bool
}

// Authority is one that signs what clients show.
type Authority int

// The authorities: clients are of the first, front proxies of the second, and nobody trusts the third.
const (
	OfClients Authority = iota
	OfProxies
	OfNobody
)

// uidAttribute is the attribute of a subject that upstream reads a uid from.
var uidAttribute = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}

// Certificate makes one for a client.
func (c *Cluster) Certificate(s Shown) (tls.Certificate, error) {
	root := []authority{c.pki.clients, c.pki.proxies, c.pki.others}[s.Of]
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := certificate(s.Name, time.Now().UnixNano())
	template.Subject.Organization = s.Groups
	if s.UID != "" {
		template.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: uidAttribute, Value: s.UID}}
	}
	if s.Expired {
		template.NotBefore, template.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, root.certificate, key.Public(), root.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// Reissue makes the certificate and the key of a listener, over those that are there.
func (c *Cluster) Reissue(name string) error {
	return c.pki.issue(c.pki.clients, name, x509.ExtKeyUsageServerAuth)
}

// Spoil puts another key in the place of a listener's.
func (c *Cluster) Spoil(name string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	return c.pki.writeKey(name+".key", key)
}

// certificateArguments let weir take clients' certificates.
func (p *pki) certificateArguments() []string {
	return []string{
		"--client-ca-file", p.file("ca.crt"),
		"--proxy-client-cert-file", p.file("proxy.crt"), "--proxy-client-key-file", p.file("proxy.key"),
	}
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
