//! Second factors: time-based one-time codes (RFC 6238), and recovery codes for users who have lost
//! their device.
//!
//! A time-based code uses SHA-1, has six digits and changes every 30 seconds. The previous and the
//! next code are also accepted.
//!
//! This module checks codes. The directory ensures that a code is accepted only once, in the
//! transaction that starts the session.

use latchmail_core::clock::Timestamp;
use latchmail_core::error::Failure;
use latchmail_core::keyring::Keyring;
use latchmail_core::sealing::Purpose;
use latchmail_core::secrets;
use latchmail_directory::Directory;
use latchmail_directory::two_factor::{Factor, TwoFactor};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq as _;
use totp_rs::{Builder, Secret, Totp};
use zeroize::Zeroizing;

const STEP: i64 = 30;
const DIGITS: usize = 6;
/// Number of symbols in a recovery code. 16 symbols contain 80 random bits.
const RECOVERY_SYMBOLS: usize = 16;
const RECOVERY_CODES: usize = 10;
/// Number of base32 symbols in a secret. RFC 4226, section 4, recommends 160 bits. Each symbol
/// contains five bits.
const SECRET_SYMBOLS: usize = 32;

/// A new second factor of an account. The user sees the secrets only once.
#[derive(Debug)]
pub struct Enrolment {
    /// The secret in base32, for users who type the secret into their device.
    pub secret: SecretString,
    /// The secret as an `otpauth://` URL, for users who scan a QR code.
    pub url: SecretString,
    /// Recovery codes.
    pub recovery: RecoveryCodes,
    /// The secret, encrypted with the service's keys and bound to the account's id.
    pub sealed_secret: Vec<u8>,
}

impl Enrolment {
    /// Generates a second factor for an account.
    ///
    /// # Errors
    /// Returns 500 if the operating system provides no randomness.
    pub fn generate(
        keys: &Keyring,
        account_id: &str,
        address: &str,
        service_name: &str,
    ) -> Result<Self, Failure> {
        let symbols = secrets::symbols::<SECRET_SYMBOLS>()?;
        let secret = Zeroizing::new(symbols.to_ascii_uppercase());
        let secret = SecretString::from(secret.as_str());
        let sealed_secret = keys.seal(Purpose::TwoFactor, account_id, &secret)?;
        Self::of(secret, sealed_secret, address, service_name)
    }

    /// Returns the second factor with the secret of [`Enrolment::sealed_secret`] and with new
    /// recovery codes. Returns `None` if the secret was not sealed for this account.
    ///
    /// # Errors
    /// Returns 500 if the operating system provides no randomness.
    pub fn reopen(
        keys: &Keyring,
        account_id: &str,
        address: &str,
        service_name: &str,
        sealed_secret: Vec<u8>,
    ) -> Result<Option<Self>, Failure> {
        let secret = keys.open(Purpose::TwoFactor, account_id, &sealed_secret);
        let reopened = secret.map(|secret| Self::of(secret, sealed_secret, address, service_name));
        reopened.transpose()
    }

    fn of(
        secret: SecretString,
        sealed_secret: Vec<u8>,
        address: &str,
        service_name: &str,
    ) -> Result<Self, Failure> {
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let issuer = encoded(service_name);
        let url = Zeroizing::new(format!(
            "otpauth://totp/{issuer}:{account}?secret={secret}&issuer={issuer}",
            account = encoded(address),
            secret = secret.expose_secret(),
        ));
        Ok(Self {
            sealed_secret,
            url: SecretString::from(url.as_str()),
            recovery: RecoveryCodes::generate()?,
            secret,
        })
    }
}

/// Returns the time-based code that the user's device shows at `now`. `secret` is in base32.
///
/// # Errors
/// Returns 500 if the secret is not valid base32.
pub fn code(secret: &SecretString, now: Timestamp) -> Result<String, Failure> {
    let seconds = u64::try_from(now.seconds()).unwrap_or_default();
    Ok(totp(secret)?.generate(seconds).to_string())
}

/// Recovery codes for users who have lost their device. The user sees the codes only once.
#[derive(Debug)]
pub struct RecoveryCodes(Vec<SecretString>);

impl RecoveryCodes {
    /// Generates ten recovery codes.
    ///
    /// # Errors
    /// Returns 500 if the operating system provides no randomness.
    pub fn generate() -> Result<Self, Failure> {
        let code = || {
            Ok(SecretString::from(
                secrets::symbols::<RECOVERY_SYMBOLS>()?.as_str(),
            ))
        };
        (0..RECOVERY_CODES)
            .map(|_| code())
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Returns the hashes of the codes, in the form that the directory stores.
    #[must_use]
    pub fn hashes(&self) -> Vec<String> {
        let hash = |code: &SecretString| secrets::sha256_hex(code.expose_secret());
        self.0.iter().map(hash).collect()
    }

    /// Returns the codes in the form for users. Hyphens separate groups of four symbols.
    pub fn shown(&self) -> impl Iterator<Item = Zeroizing<String>> {
        self.0.iter().map(|code| {
            let code = code.expose_secret();
            let mut shown = Zeroizing::new(String::with_capacity(code.len() * 2));
            for (at, symbol) in code.chars().enumerate() {
                if at > 0 && at % 4 == 0 {
                    shown.push('-');
                }
                shown.push(symbol);
            }
            shown
        })
    }
}

/// Result of the check of a second factor.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Checked {
    /// The second factor is valid. The caller must consume the factor.
    Passed(Factor),
    /// The account has a second factor, but the request contains no code.
    Missing,
    /// The code is not a current code. The caller must count this wrong code, because too many
    /// wrong codes block further codes.
    WrongCode,
    /// The second factor is rejected. The text is the reason in the audit event.
    Wrong(&'static str),
}

/// The code that a user typed.
enum Typed {
    Code(Zeroizing<String>),
    Recovery(Zeroizing<String>),
    Malformed,
}

impl Typed {
    /// Parses a code. Ignores white space, hyphens and letter case.
    fn parse(code: &SecretString) -> Self {
        let significant = |c: &char| !c.is_whitespace() && *c != '-';
        let mut text = Zeroizing::new(String::with_capacity(code.expose_secret().len()));
        text.extend(
            code.expose_secret()
                .chars()
                .filter(significant)
                .map(|c| c.to_ascii_lowercase()),
        );
        let symbol = |b: u8| b.is_ascii_lowercase() || (b'2'..=b'7').contains(&b);
        if text.len() == DIGITS && text.bytes().all(|b| b.is_ascii_digit()) {
            Self::Code(text)
        } else if text.len() == RECOVERY_SYMBOLS && text.bytes().all(symbol) {
            Self::Recovery(text)
        } else {
            Self::Malformed
        }
    }
}

/// Checks the second factor of an account whose password was verified. If the account has no
/// second factor, the check passes with or without a code.
pub(super) async fn second_factor(
    directory: &Directory,
    keys: &Keyring,
    account_id: &str,
    code: Option<&SecretString>,
    now: Timestamp,
) -> Result<Checked, Failure> {
    let Some(two_factor) = directory.second_factors.find(account_id).await? else {
        return Ok(Checked::Passed(Factor::None));
    };
    match code.map(Typed::parse) {
        None => Ok(Checked::Missing),
        // After too many wrong codes, correct and wrong codes have the same result, so an attacker
        // learns nothing from further attempts.
        Some(Typed::Code(_)) if two_factor.refused_until > now => Ok(Checked::Wrong(
            "two-factor code refused, too many were wrong",
        )),
        Some(Typed::Code(code)) => {
            let secret = keys
                .open(Purpose::TwoFactor, account_id, &two_factor.sealed_secret)
                .ok_or_else(|| {
                    Failure::internal(
                        "cannot open the second factor of an account with the service's keys",
                    )
                })?;
            let totp = totp(&secret)?;
            Ok(by_code(&totp, &code, &two_factor, now))
        }
        Some(Typed::Recovery(code)) => Ok(by_recovery_code(&two_factor, &code)),
        Some(Typed::Malformed) => Ok(Checked::Wrong("malformed two-factor code")),
    }
}

/// Returns `true` if `code` is a current code of a secret that no account has yet. `secret` is in
/// base32.
pub(super) fn is_code_of(
    secret: &SecretString,
    code: &SecretString,
    now: Timestamp,
) -> Result<bool, Failure> {
    let Typed::Code(code) = Typed::parse(code) else {
        return Ok(false);
    };
    let unused = TwoFactor {
        sealed_secret: Vec::new(),
        created_at: now,
        last_step: 0,
        refused_until: Timestamp::from_millis(0),
        recovery_codes: Vec::new(),
    };
    let checked = by_code(&totp(secret)?, &code, &unused, now);
    Ok(matches!(checked, Checked::Passed(_)))
}

fn totp(secret: &SecretString) -> Result<Totp, Failure> {
    let unusable =
        |_| Failure::internal("the secret of an account's second factor is not valid base32");
    let secret = Secret::try_from_base32(secret.expose_secret()).map_err(unusable)?;
    // The skew is 0, because `by_code` always compares the previous, the current and the next step
    // separately.
    let builder = Builder::new().with_skew(0).with_secret(secret);
    builder
        .build()
        .map_err(|e| Failure::internal(e.to_string()))
}

fn by_code(totp: &Totp, code: &str, two_factor: &TwoFactor, now: Timestamp) -> Checked {
    let current = now.seconds().div_euclid(STEP);
    let matches = |step: i64| {
        let seconds = u64::try_from(step * STEP).unwrap_or_default();
        totp.check(code, seconds).is_some()
    };
    let matching: Vec<i64> = (current - 1..=current + 1)
        .filter(|step| matches(*step))
        .collect();
    match matching.iter().find(|step| **step > two_factor.last_step) {
        Some(step) => Checked::Passed(Factor::Code {
            step: *step,
            since: two_factor.created_at,
        }),
        None if matching.is_empty() => Checked::WrongCode,
        None => Checked::Wrong("two-factor code used before"),
    }
}

fn by_recovery_code(two_factor: &TwoFactor, code: &str) -> Checked {
    let hash = secrets::sha256_hex(code);
    let known = two_factor
        .recovery_codes
        .iter()
        .fold(subtle::Choice::from(0), |known, one| {
            known | one.as_bytes().ct_eq(hash.as_bytes())
        });
    if known.into() {
        Checked::Passed(Factor::RecoveryCode(hash))
    } else {
        Checked::Wrong("wrong recovery code")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use latchmail_core::keyring::testing::keyring;

    use super::*;

    fn enrolment() -> Enrolment {
        Enrolment::generate(&keyring(&[1]), "a", "ada@example.org", "Latch mail").unwrap()
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn taken(last_step: i64) -> TwoFactor {
        TwoFactor {
            sealed_secret: Vec::new(),
            created_at: at(7),
            last_step,
            refused_until: at(0),
            recovery_codes: Vec::new(),
        }
    }

    #[test]
    fn codes_are_those_of_the_rfc() {
        // RFC 6238, appendix B: the last six digits of the codes with SHA-1.
        let secret = SecretString::from("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
        let totp = totp(&secret).unwrap();
        for (seconds, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_234_567_890, "005924"),
            (20_000_000_000, "353130"),
        ] {
            let step = seconds / 30;
            let since = at(7);
            let passed = Checked::Passed(Factor::Code { step, since });
            assert_eq!(by_code(&totp, code, &taken(0), at(seconds)), passed);
            assert_eq!(by_code(&totp, code, &taken(0), at(seconds + 30)), passed);
            assert_eq!(by_code(&totp, code, &taken(0), at(seconds - 30)), passed);
            for elsewhere in [seconds + 60, seconds - 60] {
                let checked = by_code(&totp, code, &taken(0), at(elsewhere));
                assert_eq!(checked, Checked::WrongCode);
            }
            assert_eq!(
                by_code(&totp, code, &taken(step), at(seconds)),
                Checked::Wrong("two-factor code used before")
            );
        }
    }

    #[test]
    fn an_enrolment_is_160_random_bits_for_a_device_to_scan_or_to_be_typed() {
        let one = enrolment();
        let secret = one.secret.expose_secret();
        assert_eq!(secret.len(), 32);
        let bytes = Secret::try_from_base32(secret).unwrap();
        assert_eq!(bytes.as_bytes().len(), 20);
        assert_eq!(
            one.url.expose_secret(),
            format!(
                "otpauth://totp/Latch%20mail:ada%40example%2Eorg?secret={secret}&issuer=Latch%20mail"
            )
        );
        assert_ne!(secret, enrolment().secret.expose_secret());
        let opened = keyring(&[1]).open(Purpose::TwoFactor, "a", &one.sealed_secret);
        assert_eq!(opened.unwrap().expose_secret(), secret);
    }

    #[test]
    fn recovery_codes_are_ten_in_groups_of_four() {
        let codes = RecoveryCodes::generate().unwrap();
        let shown: HashSet<String> = codes.shown().map(|code| code.to_string()).collect();
        assert_eq!(shown.len(), 10);
        for code in shown {
            assert_eq!(code.len(), 19);
            let groups: Vec<&str> = code.split('-').collect();
            assert!(groups.len() == 4 && groups.iter().all(|group| group.len() == 4));
        }
        assert_eq!(codes.hashes().len(), 10);
    }

    #[test]
    fn a_recovery_code_is_known_however_it_is_typed() {
        let codes = RecoveryCodes::generate().unwrap();
        let two_factor = TwoFactor {
            recovery_codes: codes.hashes(),
            ..taken(0)
        };
        let shown = codes.shown().nth(9).unwrap();
        for typed in [
            shown.to_string(),
            shown.replace('-', ""),
            shown.replace('-', " "),
            format!(" {} ", shown.to_uppercase()),
        ] {
            let Typed::Recovery(code) = Typed::parse(&SecretString::from(typed.as_str())) else {
                panic!("{typed} is a recovery code");
            };
            let hash = codes.hashes().remove(9);
            let passed = Checked::Passed(Factor::RecoveryCode(hash));
            assert_eq!(by_recovery_code(&two_factor, &code), passed);
        }
        assert_eq!(
            by_recovery_code(&two_factor, "aaaabbbbccccdddd"),
            Checked::Wrong("wrong recovery code")
        );
    }

    #[test]
    fn what_is_neither_is_told_apart() {
        for typed in [
            "",
            "12345",
            "1234567",
            "12345a",
            "+12345",
            "١٢٣٤٥٦",
            "aaaabbbbccccddd1",
            "x",
        ] {
            let read = Typed::parse(&SecretString::from(typed));
            assert!(matches!(read, Typed::Malformed), "{typed}");
        }
        for typed in ["123456", " 123 456 ", "123-456"] {
            let read = Typed::parse(&SecretString::from(typed));
            assert!(
                matches!(&read, Typed::Code(code) if code.as_str() == "123456"),
                "{typed}"
            );
        }
    }
}
