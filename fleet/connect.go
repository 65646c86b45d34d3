package fleet

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"
)

// Server says where Temporal is. What is not said here is as Temporal's own tools have it: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE,
// TEMPORAL_API_KEY, TEMPORAL_TLS_CLIENT_CERT_PATH and so on, or its configuration file.
type Server struct {
	Address   string
	Namespace string
	KeyFile   string // 64 hexadecimal digits: with them everything in the history is encrypted; "" encrypts nothing
}

// connectFor is how long a server is waited for.
const connectFor = 10 * time.Second

// open connects to the server; the converter is for what it tells undecoded.
func (s Server) open(ctx context.Context) (client.Client, converter.DataConverter, error) {
	conv, err := s.converter()
	if err != nil {
		return nil, nil, err
	}
	c, err := s.connect(ctx, conv)
	return c, conv, err
}

func (s Server) connect(ctx context.Context, conv converter.DataConverter) (client.Client, error) {
	opt, err := s.options(conv)
	if err != nil {
		return nil, err
	}
	return dial(ctx, opt)
}

func (s Server) options(conv converter.DataConverter) (client.Options, error) {
	opt, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return opt, fmt.Errorf("read Temporal's settings: %w", err)
	}
	if s.Address != "" {
		opt.HostPort = s.Address
	}
	if s.Namespace != "" {
		opt.Namespace = s.Namespace
	}
	opt.DataConverter = conv
	if s.KeyFile != "" {
		opt.FailureConverter = failures(conv)
	}
	host, _ := os.Hostname()
	opt.Identity = fmt.Sprintf("%s@%d", host, os.Getpid())
	opt.Logger = log.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	return opt, nil
}

func dial(ctx context.Context, opt client.Options) (client.Client, error) {
	ctx, done := context.WithTimeout(ctx, connectFor)
	defer done()
	c, err := client.DialContext(ctx, opt)
	if err != nil {
		where := opt.HostPort
		if where == "" {
			where = client.DefaultHostPort
		}
		return nil, fmt.Errorf("no Temporal server answers at %s: %w", where, err)
	}
	return c, nil
}

func (s Server) converter() (converter.DataConverter, error) {
	if s.KeyFile == "" {
		return converter.GetDefaultDataConverter(), nil
	}
	text, err := os.ReadFile(s.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != 32 {
		return nil, fmt.Errorf("%s holds no key of 64 hexadecimal digits; make one with: openssl rand -hex 32", s.KeyFile)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	sealer, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), &sealed{sealer}), nil
}

// failures encrypts the text of failures as well.
func failures(c converter.DataConverter) converter.FailureConverter {
	return temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{DataConverter: c, EncodeCommonAttributes: true})
}

// sealed encrypts payloads with AES-GCM.
type sealed struct{ cipher.AEAD }

// encoding marks payloads that are encrypted.
const encoding = "binary/descartes-aes-gcm"

// Encode encrypts.
func (s *sealed) Encode(list []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(list))
	for i, p := range list {
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, err
		}
		nonce := make([]byte, s.NonceSize())
		if _, err := rand.Read(nonce); err != nil {
			return nil, err
		}
		out[i] = &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encoding)}, Data: s.Seal(nonce, nonce, plain, nil)}
	}
	return out, nil
}

// Decode decrypts. What nobody encrypted is refused: somebody without the key wrote it.
func (s *sealed) Decode(list []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(list))
	for i, p := range list {
		if string(p.Metadata[converter.MetadataEncoding]) != encoding || len(p.Data) < s.NonceSize() {
			return nil, errors.New("a payload is not encrypted: is --key-file missing somewhere?")
		}
		plain, err := s.Open(nil, p.Data[:s.NonceSize()], p.Data[s.NonceSize():], nil)
		if err != nil {
			return nil, errors.New("a payload was encrypted with another key")
		}
		out[i] = &commonpb.Payload{}
		if err := proto.Unmarshal(plain, out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
