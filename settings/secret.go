package settings

import "fmt"

// SecretFile is a file from which a secret is read.
type SecretFile struct {
	// Setting names the file.
	Setting string
	// Value is the setting whose value the file has; empty: the file itself is what is needed.
	Value string
	// Credential is the name of the file in the directory of a service's credentials
	// (LoadCredential= of systemd).
	Credential string
}

// SecretFiles are all of them.
func SecretFiles() []SecretFile {
	return []SecretFile{
		{"sm-key-file", "sm-key", "sm-key"},
		{"m-key-file", "m-key", "m-key"},
		{"sa-key-file", "sa-key", "sa-key"},
		{"cc-key-file", "cc-key", "cc-key"},
		{"api-read-token-file", "", "api-read-token"},
		{"ufm-password-file", "", "ufm-password"},
		{"etcd-password-file", "", "etcd-password"},
		{"ha-secret", "", "ha-secret"},
	}
}

// CheckSecret refuses a secret that was given both ways.
func (v *Values) CheckSecret(s SecretFile) error {
	if s.Value != "" && v.Given(s.Value) && v.Given(s.Setting) {
		return fmt.Errorf("%s and %s do not go together", v.From(s.Value), v.From(s.Setting))
	}
	return nil
}
