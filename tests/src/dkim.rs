//! Verifies DKIM as a recipient does: with dkimpy, which shares no code with the signer.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_core::keyring::Keyring;
use latchmail_directory::db::Tx;
use latchmail_dkim::KeyPair;
use latchmail_net::dns::dkim_value;
use serde_json::json;

use crate::{Person, directory};

/// Debian's Python, for which Debian packages dkimpy.
const PYTHON: &str = "/usr/bin/python3";
const VERIFY: &str = include_str!("verify.py");

const CLAIM: &str = "INSERT INTO domains (account_id, domain, challenge, created_at, verified_at, dkim_selector, dkim_public_key, dkim_private_key) \
     VALUES ((SELECT id FROM accounts WHERE address = $1), $2, 'challenge', 0, 0, $3, $4, $5)";

/// Arguments of openssl that create an RSA key.
pub const PKCS8: &str = "genpkey -quiet -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out FILE";

/// Runs openssl with these arguments to create a key in the file, and returns the public key as in
/// a DNS record.
pub fn key_file(file: &Path, arguments: &str) -> String {
    let openssl = |arguments: &str| {
        let words = arguments.split(' ').map(|word| match word {
            "FILE" => file.as_os_str(),
            word => OsStr::new(word),
        });
        let output = Command::new("openssl").args(words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    openssl(arguments);
    std::fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
    let public = openssl("pkey -in FILE -pubout");
    let public = public.lines().filter(|line| !line.starts_with('-'));
    public.collect()
}

/// DNS records: texts by name.
pub type Records = BTreeMap<String, String>;

/// Returns the name and text of a key's record.
pub fn dns_record(domain: &str, selector: &str, public_key: &str) -> (String, String) {
    let name = format!("{selector}._domainkey.{domain}");
    (name, dkim_value(public_key))
}

/// Returns for each message whether each of its signatures is valid.
pub fn verify_all<'a>(
    messages: impl IntoIterator<Item = &'a [u8]>,
    records: &Records,
) -> Vec<Vec<bool>> {
    let mut input_lines = Vec::new();
    for message in messages {
        let one = json!({ "message": STANDARD.encode(message), "records": records });
        writeln!(input_lines, "{one}").unwrap();
    }
    let mut verifier = Command::new(PYTHON)
        .args(["-c", VERIFY])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = verifier.stdin.take().unwrap();
    let writing = std::thread::spawn(move || input.write_all(&input_lines).unwrap());
    let output = verifier.wait_with_output().unwrap();
    writing.join().unwrap();
    assert!(
        output.status.success(),
        "dkimpy failed; ./just setup --tests installs it"
    );
    let responses = String::from_utf8(output.stdout).unwrap();
    let responses = responses.lines();
    responses
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

/// Returns whether each signature of one message is valid.
pub fn verify(message: &[u8], records: &Records) -> Vec<bool> {
    verify_all([message], records).remove(0)
}

/// Adds a verified domain with a new key to a person's account, and returns the DNS record of the
/// key.
pub async fn add_domain(person: &Person<'_>, domain: &str) -> Records {
    let keys = Keyring::load(&person.service.state.join("latchmail.key")).unwrap();
    let pair = KeyPair::generate().await.unwrap();
    let sealed = pair.sealed(&keys, domain).unwrap();
    let directory = directory::open(&person.service.database()).await;
    let mut tx = directory.db().begin().await.unwrap();
    match &mut tx {
        Tx::Sqlite(tx) => sqlx::query(CLAIM)
            .bind(&person.address)
            .bind(domain)
            .bind(pair.selector())
            .bind(pair.public_key())
            .bind(sealed)
            .execute(&mut **tx)
            .await
            .map(drop),
        Tx::Postgres(tx) => sqlx::query(CLAIM)
            .bind(&person.address)
            .bind(domain)
            .bind(pair.selector())
            .bind(pair.public_key())
            .bind(sealed)
            .execute(&mut **tx)
            .await
            .map(drop),
    }
    .unwrap();
    tx.commit().await.unwrap();
    directory.db().repair_mailserver().await.unwrap();
    directory.close().await;
    Records::from([dns_record(domain, pair.selector(), pair.public_key())])
}
