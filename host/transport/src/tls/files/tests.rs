//! Tests with real files.

use std::fs;
use std::os::unix::fs::symlink;

use latchmail_core::logging::testing::logged;
use rcgen::{CertifiedKey as Generated, generate_simple_self_signed};
use tempfile::TempDir;

use super::*;

fn generate() -> Generated {
    generate_simple_self_signed(["mail-api.example.com".to_owned()]).unwrap()
}

/// A folder with a certificate.
struct Folder(TempDir);

impl Folder {
    fn with(generated: &Generated) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write(generated);
        folder
    }

    fn write(&self, generated: &Generated) {
        fs::write(self.tls().certificate, generated.cert.pem()).unwrap();
        fs::write(self.tls().key, generated.key_pair.serialize_pem()).unwrap();
    }

    fn tls(&self) -> Tls {
        Tls {
            certificate: self.0.path().join("certificate.pem"),
            key: self.0.path().join("key.pem"),
        }
    }
}

/// Returns `true` if the certificate is in use.
fn uses(files: &CertificateFiles, generated: &Generated) -> bool {
    files.current.load().cert[0] == *generated.cert.der()
}

#[test]
fn an_error_names_the_file_and_the_reason() {
    let folder = Folder::with(&generate());
    let tls = folder.tls();
    let error = || CertificateFiles::load(&tls).unwrap_err().to_string();
    fs::write(&tls.key, generate().key_pair.serialize_pem()).unwrap();
    let mismatch = error();
    assert!(
        mismatch.contains("`tls.key`") && mismatch.contains("does not belong"),
        "{mismatch}"
    );
    for (path, key) in [
        (&tls.certificate, "`tls.certificate`"),
        (&tls.key, "`tls.key`"),
    ] {
        folder.write(&generate());
        let summary = |name: &str| check_certificate(&tls, name).unwrap();
        assert!(summary("mail-api.example.com").expiry > Clock::system().now());
        assert!(summary("mail-api.example.com").is_valid_for_name);
        assert!(
            !summary("example.com").is_valid_for_name && !summary("127.0.0.1").is_valid_for_name
        );
        for text in [
            "",
            "text",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            fs::write(path, text).unwrap();
            let invalid = error();
            assert!(invalid.contains(key), "{invalid}");
            assert!(invalid.contains(path.to_str().unwrap()), "{invalid}");
        }
        fs::remove_file(path).unwrap();
        let missing = error();
        assert!(
            missing.contains(key) && missing.contains("No such file"),
            "{missing}"
        );
    }
}

#[tokio::test]
async fn a_changed_certificate_is_used_when_both_files_match() {
    let (first, second) = (generate(), generate());
    let folder = Folder::with(&first);
    let tls = folder.tls();
    let files = CertificateFiles::load(&tls).unwrap();
    let log = logged(async {
        files.reload().await;
        assert!(uses(&files, &first));
        fs::write(&tls.certificate, second.cert.pem()).unwrap();
        for _ in 0..3 {
            files.reload().await;
            assert!(uses(&files, &first), "the key is still the first one");
        }
        fs::remove_file(&tls.key).unwrap();
        for _ in 0..3 {
            files.reload().await;
            assert!(uses(&files, &first));
        }
        folder.write(&second);
        files.reload().await;
        assert!(uses(&files, &second));
        folder.write(&first);
        files.reload().await;
        assert!(uses(&files, &first));
    })
    .await;
    let count = |text: &str| log.matches(text).count();
    assert_eq!(count("does not belong"), 1, "{log}");
    assert_eq!(count("cannot read `tls.key`"), 1, "{log}");
    assert_eq!(count("loaded the TLS certificate"), 2, "{log}");
}

#[tokio::test]
async fn a_replaced_symbolic_link_changes_the_certificate() {
    let (first, second) = (generate(), generate());
    let (old, new) = (Folder::with(&first), Folder::with(&second));
    let links = tempfile::tempdir().unwrap();
    let data = links.path().join("..data");
    symlink(old.0.path(), &data).unwrap();
    let files = CertificateFiles::load(&Tls {
        certificate: data.join("certificate.pem"),
        key: data.join("key.pem"),
    })
    .unwrap();
    // Kubernetes replaces the link to the folder.
    symlink(new.0.path(), links.path().join("..new")).unwrap();
    fs::rename(links.path().join("..new"), &data).unwrap();
    files.reload().await;
    assert!(uses(&files, &second));
}
