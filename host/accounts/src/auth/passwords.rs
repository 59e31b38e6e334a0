//! Hashes the passwords of users with argon2id, on separate threads. Each computation needs 19 MiB
//! of memory, so the number of concurrent computations is limited. Further computations wait in a
//! bounded queue. The memory is reused, and freed if no password was hashed for some time.

use std::fmt;
use std::mem;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use argon2::password_hash::phc::{Output, ParamsString, Salt};
use argon2::{Algorithm, Argon2, Block, Params, PasswordHash, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use latchmail_core::cpu;
use latchmail_core::error::Failure;
use latchmail_core::fingerprint::is_fingerprint;
use latchmail_core::secrets;
use latchmail_core::work_queue::{WorkPermit, WorkQueue};
use secrecy::{ExposeSecret, SecretString};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Maximum length of a password, in bytes. A longer password is rejected without hashing.
pub const MAX_LENGTH: usize = 1024;

/// Returns `true` if the password is not empty and does not exceed the maximum length.
#[must_use]
pub fn has_valid_length(password: &SecretString) -> bool {
    (1..=MAX_LENGTH).contains(&password.expose_secret().len())
}

/// The argon2id parameters of the OWASP Password Storage Cheat Sheet: 19 MiB, two passes, one lane.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

const SALT_LENGTH: usize = 16;

/// Maximum length of an imported hash, in bytes.
const MAX_IMPORTED_HASH: usize = 256;
/// Maximum memory of an imported hash, in KiB.
const MAX_IMPORTED_MEMORY: u32 = 64 * 1024;
/// Maximum product of the memory of an imported hash, in KiB, and its passes. This is about a
/// second of CPU time.
const MAX_IMPORTED_COST: u64 = 1024 * 1024;

/// If no computation has ended within this time, the buffers are freed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Hashes and verifies passwords.
pub struct Passwords {
    /// The queue of computations. At most one computation per CPU core runs, because more
    /// concurrent computations would use more memory and would not be faster.
    queue: Arc<WorkQueue>,
    buffers: Buffers,
    /// A random hash that no password matches. The hash is used for unknown accounts, so that a
    /// check takes the same time for all accounts.
    dummy_hash: String,
}

impl Passwords {
    /// Creates the hasher, which runs at most one computation per CPU core.
    ///
    /// # Errors
    /// Returns 500 if the operating system provides no randomness.
    pub fn new() -> Result<Self, Failure> {
        let cores = available_parallelism().map_or(2, usize::from);
        Ok(Self {
            queue: WorkQueue::new(cores, cores),
            buffers: Buffers::new(IDLE_TIMEOUT),
            dummy_hash: random_hash()?,
        })
    }

    /// Returns the password's hash as a PHC string. `client` is the IP address of the client, or
    /// `None` if the service itself is the client.
    ///
    /// # Errors
    /// Returns 503 if the queue is full, or if the client disconnects before the computation.
    /// Returns 500 if hashing fails.
    pub async fn hash(
        &self,
        password: SecretString,
        client: Option<IpAddr>,
    ) -> Result<String, Failure> {
        let permit = self.permit(client).await?;
        self.with_buffer(permit, move |memory| hash(&password, memory))
            .await
    }

    /// Waits for a permit to run a computation for the client with the IP address `client`.
    ///
    /// # Errors
    /// Returns 503 if the queue is full, or if the client disconnects.
    pub(super) async fn permit(&self, client: Option<IpAddr>) -> Result<WorkPermit, Failure> {
        self.queue.acquire(client).await
    }

    /// Returns `true` if `password` matches the hash `expected`. If `expected` is `None`, returns
    /// `false` after the same time. Also returns `false` after the same time if `expected` is empty
    /// or a fingerprint, because the directory has no password hash of such an account. `permit` is
    /// a permit of [`Self::permit`].
    ///
    /// # Errors
    /// Returns 500 if the hash cannot be parsed.
    pub(super) async fn verify(
        &self,
        password: SecretString,
        expected: Option<&str>,
        permit: WorkPermit,
    ) -> Result<bool, Failure> {
        let expected = expected.filter(|text| !text.is_empty() && !is_fingerprint(text));
        let known = expected.is_some();
        let expected = expected.unwrap_or(&self.dummy_hash).to_owned();
        let right = self
            .with_buffer(permit, move |memory| verify(&password, &expected, memory))
            .await?;
        Ok(right && known)
    }

    async fn with_buffer<T: Send + 'static>(
        &self,
        permit: WorkPermit,
        work: impl FnOnce(&mut Vec<Block>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let buffers = self.buffers.clone();
        spawn_blocking(cpu::charged(move || {
            // The task owns the permit, because the task uses the memory even after the client
            // disconnects.
            let _permit = permit;
            work(&mut buffers.take().blocks)
        }))
        .await
        .map_err(Failure::internal)?
    }
}

/// The memory buffers for hash computations. The buffers are reused, because otherwise the
/// allocator would keep several blocks of 19 MiB for every thread. The number of buffers does not
/// exceed the number of permits. Unused buffers are freed after [`IDLE_TIMEOUT`].
///
/// Buffers are not zeroed after use, because zeroing would take time and not improve security. The
/// last pass of argon2id overwrites every block. So an attacker with a buffer cannot test passwords
/// faster than an attacker with the stored hash.
#[derive(Clone)]
struct Buffers {
    idle: Arc<Mutex<IdleBuffers>>,
    timeout: Duration,
}

/// The buffers that no computation uses.
#[derive(Default)]
struct IdleBuffers {
    buffers: Vec<Vec<Block>>,
    /// The time at which the last computation ended.
    used: Option<Instant>,
    /// `true` if the task that frees the buffers is running.
    cleanup_running: bool,
}

/// A buffer in use.
struct Buffer {
    blocks: Vec<Block>,
    buffers: Buffers,
}

impl Buffers {
    fn new(timeout: Duration) -> Self {
        Self {
            idle: Arc::default(),
            timeout,
        }
    }

    fn lock(&self) -> MutexGuard<'_, IdleBuffers> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Buffer {
        let buffer = self.lock().buffers.pop();
        Buffer {
            blocks: buffer.unwrap_or_default(),
            buffers: self.clone(),
        }
    }

    /// Waits until no computation has ended within `timeout`, and frees the unused buffers.
    async fn free_when_idle(self) {
        loop {
            sleep(self.timeout).await;
            let mut idle = self.lock();
            if idle.used.is_none_or(|used| used.elapsed() >= self.timeout) {
                *idle = IdleBuffers::default();
                return;
            }
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut idle = self.buffers.lock();
        idle.buffers.push(mem::take(&mut self.blocks));
        idle.used = Some(Instant::now());
        // Without a Tokio runtime, the service is stopping, so the buffers need no cleanup task.
        if !idle.cleanup_running
            && let Ok(runtime) = Handle::try_current()
        {
            idle.cleanup_running = true;
            drop(runtime.spawn(self.buffers.clone().free_when_idle()));
        }
    }
}

fn hash(password: &SecretString, memory: &mut Vec<Block>) -> Result<String, Failure> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(Failure::internal)?;
    let (algorithm, version) = (Algorithm::Argon2id, Version::V0x13);
    let salt = secrets::random::<SALT_LENGTH>()?;
    let output = output(
        password,
        salt.as_slice(),
        (algorithm, version, params.clone()),
        memory,
    )?;
    let hash = PasswordHash {
        algorithm: algorithm.ident(),
        version: Some(version.into()),
        params: ParamsString::try_from(&params).map_err(Failure::internal)?,
        salt: Some(Salt::new(salt.as_slice()).map_err(Failure::internal)?),
        hash: Some(output),
    };
    Ok(hash.to_string())
}

/// Checks the hash of a password that another system computed. Returns the hash as the directory
/// stores it: a PHC string of argon2id, argon2i or argon2d. Accepts the prefix with which Dovecot
/// writes such a hash, for example `{ARGON2ID}`. A verification of the hash must not need more
/// memory or time than the service can spend.
///
/// # Errors
/// Returns the error text for the client if the hash cannot be used.
pub fn imported_hash(text: &str) -> Result<String, &'static str> {
    const UNKNOWN: &str = "must be a PHC string of argon2id, argon2i or argon2d";
    let bare = match text.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        Some((scheme, rest)) if scheme.to_ascii_uppercase().starts_with("ARGON2") => rest,
        Some(_) => return Err(UNKNOWN),
        None => text,
    };
    if bare.len() > MAX_IMPORTED_HASH {
        return Err(UNKNOWN);
    }
    let hash = PasswordHash::new(bare).map_err(|_| UNKNOWN)?;
    let version = hash.version.map(Version::try_from).transpose();
    let params = Params::try_from(&hash).map_err(|_| UNKNOWN)?;
    if Algorithm::try_from(hash.algorithm.as_str()).is_err()
        || version.is_err()
        || hash.salt.is_none()
        || hash.hash.is_none()
    {
        return Err(UNKNOWN);
    }
    let cost = u64::from(params.m_cost()) * u64::from(params.t_cost());
    if params.m_cost() > MAX_IMPORTED_MEMORY || cost > MAX_IMPORTED_COST {
        return Err("must not need more than 64 MiB of memory, or too many passes");
    }
    Ok(bare.to_owned())
}

/// Compares a password with a stored hash. Uses the parameters of the stored hash, because the
/// parameters of [`hash`] can change between versions.
fn verify(
    password: &SecretString,
    expected: &str,
    memory: &mut Vec<Block>,
) -> Result<bool, Failure> {
    let expected = PasswordHash::new(expected).map_err(Failure::internal)?;
    let algorithm = Algorithm::try_from(expected.algorithm.as_str()).map_err(Failure::internal)?;
    let version = expected.version.map(Version::try_from).transpose();
    let version = version.map_err(Failure::internal)?.unwrap_or_default();
    let params = Params::try_from(&expected).map_err(Failure::internal)?;
    let (Some(salt), Some(hash)) = (expected.salt, expected.hash) else {
        return Err(Failure::internal(
            "a stored password hash has no salt or no output",
        ));
    };
    let output = output(password, &salt, (algorithm, version, params), memory)?;
    // The comparison takes constant time.
    Ok(output == hash)
}

fn output(
    password: &SecretString,
    salt: &[u8],
    (algorithm, version, params): (Algorithm, Version, Params),
    memory: &mut Vec<Block>,
) -> Result<Output, Failure> {
    if memory.len() < params.block_count() {
        memory.resize(params.block_count(), Block::new());
    }
    let length = params.output_len().unwrap_or(Params::DEFAULT_OUTPUT_LEN);
    let mut output = [0; Output::MAX_LENGTH];
    let output = output
        .get_mut(..length)
        .ok_or_else(|| Failure::internal("the output of a stored password hash is too long"))?;
    Argon2::new(algorithm, version, params)
        .hash_password_into_with_memory(password.expose_secret().as_bytes(), salt, output, memory)
        .map_err(Failure::internal)?;
    Output::new(output).map_err(Failure::internal)
}

/// Returns a PHC string with the parameters of [`hash`], a random salt and a random output.
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
    use latchmail_core::error::Kind;

    use super::*;

    const CLIENT: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));

    fn secret(text: &str) -> SecretString {
        SecretString::from(text)
    }

    async fn check(
        passwords: &Passwords,
        password: &str,
        expected: Option<&str>,
    ) -> Result<bool, Failure> {
        let permit = passwords.permit(CLIENT).await?;
        passwords.verify(secret(password), expected, permit).await
    }

    #[tokio::test]
    async fn a_password_verifies_against_its_hash_alone() {
        let passwords = Passwords::new().unwrap();
        let hash = passwords.hash(secret("Correct1"), CLIENT).await.unwrap();
        assert!(
            hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
            "{hash}"
        );
        assert_ne!(
            hash,
            passwords.hash(secret("Correct1"), CLIENT).await.unwrap()
        );
        let verify = async |text| check(&passwords, text, Some(&hash)).await.unwrap();
        assert!(verify("Correct1").await);
        for wrong in ["correct1", "Correct1 ", "", "Correct1\0"] {
            assert!(!verify(wrong).await, "{wrong:?}");
        }
    }

    #[tokio::test]
    async fn a_hash_of_another_system_verifies() {
        let passwords = Passwords::new().unwrap();
        let hash = passwords.hash(secret("Correct1"), CLIENT).await.unwrap();
        for text in [hash.clone(), format!("{{ARGON2ID}}{hash}")] {
            let imported = imported_hash(&text).unwrap();
            let verified = check(&passwords, "Correct1", Some(&imported)).await;
            assert!(verified.unwrap(), "{text}");
        }
        let hungry = hash.replace("m=19456", "m=4194304");
        let slow = hash.replace("t=2", "t=1000");
        let other = [
            "",
            "secret",
            "{SSHA512}abc",
            "{ARGON2ID}",
            "$2y$10$abc",
            &hungry,
            &slow,
        ];
        for text in other {
            assert!(imported_hash(text).is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn nobody_has_a_password_and_finding_out_costs_the_same() {
        let passwords = Passwords::new().unwrap();
        let hash = passwords.hash(secret("Correct1"), CLIENT).await.unwrap();
        let parameters = |hash: &str| hash.rsplitn(3, '$').last().map(str::to_owned);
        assert_eq!(parameters(&passwords.dummy_hash), parameters(&hash));
        let begun = Instant::now();
        assert!(!check(&passwords, "Wrong111", Some(&hash)).await.unwrap());
        let known = begun.elapsed();
        let begun = Instant::now();
        for expected in [None, Some(""), Some("fingerprint:00:00")] {
            let verified = check(&passwords, "Wrong111", expected).await;
            assert!(!verified.unwrap(), "{expected:?}");
        }
        let unknown = begun.elapsed();
        // The factor is large, because other tests run at the same time. Without a hash, the check
        // would take a hundredth of the time.
        assert!(unknown * 10 > known, "{unknown:?} against {known:?}");
    }

    #[tokio::test]
    async fn a_hash_that_cannot_be_read_is_a_fault_and_not_a_wrong_password() {
        let passwords = Passwords::new().unwrap();
        let checked = check(&passwords, "Correct1", Some("nonsense")).await;
        let failure = checked.unwrap_err();
        assert_eq!(failure.kind, Kind::Internal);
    }

    #[tokio::test]
    async fn one_computation_at_a_time_uses_one_buffer() {
        let passwords = Passwords::new().unwrap();
        for _ in 0..3 {
            passwords
                .hash(secret("Correct-Horse-7"), CLIENT)
                .await
                .unwrap();
            assert_eq!(passwords.buffers.lock().buffers.len(), 1);
        }
    }

    #[tokio::test]
    async fn unused_buffers_are_freed_each_time() {
        let passwords = Passwords {
            buffers: Buffers::new(Duration::from_millis(20)),
            ..Passwords::new().unwrap()
        };
        for _ in 0..2 {
            passwords
                .hash(secret("Correct-Horse-7"), CLIENT)
                .await
                .unwrap();
            let deadline = Instant::now() + Duration::from_secs(10);
            while !passwords.buffers.lock().buffers.is_empty() {
                assert!(Instant::now() < deadline, "the buffer was not freed");
                sleep(Duration::from_millis(5)).await;
            }
        }
    }

    #[tokio::test]
    async fn abandoned_attempts_do_not_delay_the_next_one() {
        let passwords = Arc::new(Passwords::new().unwrap());
        let begun = Instant::now();
        passwords.hash(secret("Correct1"), CLIENT).await.unwrap();
        let alone = begun.elapsed();
        let attempts: Vec<_> = (0..600_u32)
            .map(|number| {
                let passwords = Arc::clone(&passwords);
                let client = Some(IpAddr::from((0x0a00_0001 + (number << 8)).to_be_bytes()));
                tokio::spawn(async move { passwords.hash(secret("Wrong111"), client).await })
            })
            .collect();
        // The runtime polls a part of the tasks each time.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(attempts.iter().any(|attempt| !attempt.is_finished()));
        let begun = Instant::now();
        passwords.hash(secret("Correct1"), CLIENT).await.unwrap();
        // One after the other, the attempts would take hundreds of times as long on a machine with
        // two cores.
        assert!(begun.elapsed() < alone * 20 + Duration::from_millis(500));
        for attempt in attempts {
            attempt.abort();
        }
    }
}
