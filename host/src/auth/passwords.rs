//! People's own passwords: argon2id, off the serving threads, and only so many at a time, since each takes 19 MiB of memory.

use std::fmt;
use std::sync::Arc;
use std::thread::available_parallelism;

use argon2::password_hash::Error as HashError;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::secrets;
use crate::cpu;
use crate::error::Failure;

/// The longest password, in bytes. A longer one is refused before it is hashed.
pub const LONGEST: usize = 1024;

/// Whether this could be anybody's password: it is not empty, and not longer than any.
#[must_use]
pub fn can_be(password: &SecretString) -> bool {
    (1..=LONGEST).contains(&password.expose_secret().len())
}

/// OWASP Password Storage Cheat Sheet, argon2id: 19 MiB, two passes, one lane.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

const SALT_LENGTH: usize = 16;

/// Hashes and verifies passwords.
pub struct Passwords {
    /// One a core: more at a time would only take memory.
    slots: Arc<Semaphore>,
    /// A hash of the same cost as any other. It is random: no password is known to have it.
    nobody: String,
}

impl Passwords {
    /// # Errors
    /// 500 where the operating system has no randomness.
    pub fn new() -> Result<Self, Failure> {
        let cores = available_parallelism().map_or(2, usize::from);
        Ok(Self {
            slots: Arc::new(Semaphore::new(cores)),
            nobody: random_hash()?,
        })
    }

    /// The password's hash, as a PHC string.
    ///
    /// # Errors
    /// 500 where hashing fails.
    pub async fn hash(&self, password: SecretString) -> Result<String, Failure> {
        self.in_slot(move || hash(&password)).await
    }

    /// Whether `password` is the one that was hashed. Without a hash the answer is no, and it takes just as long.
    ///
    /// # Errors
    /// 500 where the hash cannot be read.
    pub async fn verify(
        &self,
        password: SecretString,
        expected: Option<&str>,
    ) -> Result<bool, Failure> {
        let known = expected.is_some();
        let expected = expected.unwrap_or(&self.nobody).to_owned();
        let right = self
            .in_slot(move || {
                match argon2()?
                    .verify_password(password.expose_secret().as_bytes(), expected.as_str())
                {
                    Ok(()) => Ok(true),
                    Err(HashError::PasswordInvalid) => Ok(false),
                    Err(e) => Err(Failure::internal(e)),
                }
            })
            .await?;
        Ok(right && known)
    }

    async fn in_slot<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let slot = Arc::clone(&self.slots)
            .acquire_owned()
            .await
            .map_err(Failure::internal)?;
        spawn_blocking(cpu::charged(move || {
            // Held by the work itself: a client that hangs up does not free the memory.
            let _slot = slot;
            work()
        }))
        .await
        .map_err(Failure::internal)?
    }
}

fn argon2() -> Result<Argon2<'static>, Failure> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(Failure::internal)?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

fn hash(password: &SecretString) -> Result<String, Failure> {
    let salt = secrets::random::<SALT_LENGTH>()?;
    argon2()?
        .hash_password_with_salt(password.expose_secret().as_bytes(), salt.as_slice())
        .map(|hash| hash.to_string())
        .map_err(Failure::internal)
}

/// A PHC string with the parameters of [`hash`] whose salt and output are random.
fn random_hash() -> Result<String, Failure> {
    let salt = secrets::random::<SALT_LENGTH>()?;
    let output = secrets::random::<{ Params::DEFAULT_OUTPUT_LEN }>()?;
    Ok(format!(
        "$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${}${}",
        STANDARD_NO_PAD.encode(salt.as_slice()),
        STANDARD_NO_PAD.encode(output.as_slice()),
    ))
}

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passwords").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn secret(text: &str) -> SecretString {
        SecretString::from(text)
    }

    #[tokio::test]
    async fn a_password_verifies_against_its_hash_alone() {
        let passwords = Passwords::new().unwrap();
        let hash = passwords.hash(secret("Correct1")).await.unwrap();
        assert!(
            hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
            "{hash}"
        );
        assert_ne!(hash, passwords.hash(secret("Correct1")).await.unwrap());
        let verify = async |text| passwords.verify(secret(text), Some(&hash)).await.unwrap();
        assert!(verify("Correct1").await);
        for wrong in ["correct1", "Correct1 ", "", "Correct1\0"] {
            assert!(!verify(wrong).await, "{wrong:?}");
        }
    }

    #[tokio::test]
    async fn nobody_has_a_password_and_finding_out_costs_the_same() {
        let passwords = Passwords::new().unwrap();
        let hash = passwords.hash(secret("Correct1")).await.unwrap();
        let parameters = |hash: &str| hash.rsplitn(3, '$').last().map(str::to_owned);
        assert_eq!(parameters(&passwords.nobody), parameters(&hash));
        let begun = Instant::now();
        assert!(
            !passwords
                .verify(secret("Wrong111"), Some(&hash))
                .await
                .unwrap()
        );
        let known = begun.elapsed();
        let begun = Instant::now();
        assert!(!passwords.verify(secret("Wrong111"), None).await.unwrap());
        let unknown = begun.elapsed();
        // Other tests share the machine; a skipped hash would be a hundredth.
        assert!(unknown * 10 > known, "{unknown:?} against {known:?}");
    }

    #[tokio::test]
    async fn a_hash_that_cannot_be_read_is_a_fault_and_not_a_wrong_password() {
        let passwords = Passwords::new().unwrap();
        let failure = passwords
            .verify(secret("Correct1"), Some("nonsense"))
            .await
            .unwrap_err();
        assert_eq!(failure.status.as_u16(), 500);
    }
}
