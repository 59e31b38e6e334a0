//! Devices without a browser (RFC 8628): each shows its person eight letters to type on a page of this service, where they sign in.

use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;
use utoipa::ToSchema;

use super::clients::{NO_DEVICES, Shown, may};
use super::error::{Error, Refusal};
use super::parameters::Parameters;
use super::{BY_DEVICE_CODE, OAuth};
use crate::auth::oauth_tokens::{Handed, Use};
use crate::auth::secrets;
use crate::caller::Origin;
use crate::directory::oauth::{Agreement, Device, NewDevice};
use crate::error::Failure;

/// Letters that make no words, and none that is taken for another (RFC 8628, section 6.1).
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
/// How many a user code has: 34 bits, of which a guesser tries five a minute while it lives.
const LENGTH: usize = 8;

/// How long somebody has to sign in.
const LIFETIME: Duration = Duration::from_mins(10);
/// How long a device waits between two questions.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a device is answered that begins to wait (RFC 8628, section 3.2).
#[derive(Serialize, ToSchema)]
#[schema(as = DeviceAuthorization)]
pub struct Answer {
    /// The code that the device exchanges at the token endpoint.
    device_code: String,
    /// The code that the person types on the page.
    user_code: String,
    /// The address of the page.
    verification_uri: String,
    /// The address of the page, with the code in it.
    verification_uri_complete: String,
    /// The lifetime of both codes, in seconds.
    expires_in: u64,
    /// The minimum number of seconds between two requests to the token endpoint.
    interval: u64,
}

impl OAuth {
    /// Lets a device begin to wait.
    ///
    /// # Errors
    /// A refusal of the protocol; 500.
    pub async fn begin_device(
        &self,
        parameters: &Parameters,
        basic: Option<(&str, &str)>,
    ) -> Result<Answer, Error> {
        let client = self.authenticated(Shown::of(parameters, basic)?).await?;
        may(&client, BY_DEVICE_CODE)?;
        if client.secret_hash.is_none() && !self.device_grant {
            return Err(Refusal::new("unauthorized_client", NO_DEVICES).into());
        }
        let resource = self.resource(parameters)?;
        let scope = self.granted_scope(parameters)?;
        let device = Handed::generate(Use::Device)?;
        let user_code = user_code()?;
        let kept = NewDevice {
            hash: device.hash().to_owned(),
            user_code: user_code.clone(),
            client_id: client.id,
            client_name: client.name,
            resource,
            scope,
            patience: PATIENCE,
            expires_at: self.clock.now().plus(LIFETIME),
        };
        self.directory.add_device(&kept).await?;
        let shown = shown_code(&user_code);
        let page = format!("{}/device", self.issuer);
        Ok(Answer {
            device_code: device.secret().expose_secret().to_owned(),
            verification_uri_complete: format!("{page}?user_code={shown}"),
            verification_uri: page,
            user_code: shown,
            expires_in: LIFETIME.as_secs(),
            interval: PATIENCE.as_secs(),
        })
    }

    /// The device that waits under a user code, as it is kept.
    ///
    /// # Errors
    /// 500.
    pub async fn waiting_device(&self, user_code: &str) -> Result<Option<Device>, Failure> {
        let now = self.clock.now();
        Ok(self.directory.waiting_device(user_code, now).await?)
    }

    /// Lets a device in, by signing in.
    ///
    /// # Errors
    /// As [`crate::auth::Auth::agree`].
    pub async fn agree_to_device(
        &self,
        user_code: &str,
        address: &str,
        password: SecretString,
        second: Option<&SecretString>,
        origin: &Origin,
    ) -> Result<(), Failure> {
        let agreement = Agreement::Device(user_code);
        self.auth
            .agree(address, password, second, agreement, origin)
            .await
    }

    /// Says no to a device, also after a yes as long as it has nothing. Whether there was one.
    ///
    /// # Errors
    /// 500.
    pub async fn deny_device(&self, user_code: &str) -> Result<bool, Failure> {
        let now = self.clock.now();
        Ok(self.directory.deny_device(user_code, now).await?)
    }
}

/// A user code as it is kept, of what somebody typed: capitals or not, with whatever stands between; none where it can be none.
#[must_use]
pub fn read_code(typed: &str) -> Option<String> {
    let symbols = typed
        .chars()
        .filter(|c| !c.is_whitespace() && !matches!(c, '-' | '_' | '.'));
    let code: String = symbols.map(|c| c.to_ascii_uppercase()).collect();
    let letters = code.bytes().all(|byte| LETTERS.contains(&byte));
    (code.len() == LENGTH && letters).then_some(code)
}

/// A user code as people are shown it.
#[must_use]
pub fn shown_code(code: &str) -> String {
    let (first, second) = code.split_at_checked(LENGTH / 2).unwrap_or((code, ""));
    format!("{first}-{second}")
}

fn user_code() -> Result<String, Failure> {
    let mut code = String::with_capacity(LENGTH);
    while code.len() < LENGTH {
        // 240 is twelve times 20: what lies beyond would make some likelier.
        let random = secrets::random::<32>()?;
        let fair = random.iter().filter(|byte| **byte < 240);
        let missing = LENGTH - code.len();
        code.extend(
            fair.take(missing)
                .map(|byte| char::from(LETTERS[usize::from(byte % 20)])),
        );
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_however_it_was_typed() {
        for typed in ["BCDF-GHJK", "bcdfghjk", " bcdf ghjk ", "B.C.D.F-g-h_jk"] {
            assert_eq!(read_code(typed).as_deref(), Some("BCDFGHJK"), "{typed}");
        }
        for typed in [
            "",
            "BCDF-GHJ",
            "BCDF-GHJKL",
            "ACDF-GHJK",
            "BCDF-GHJ1",
            "BÇDF-GHJK",
        ] {
            assert_eq!(read_code(typed), None, "{typed}");
        }
    }

    #[test]
    fn a_code_that_was_made_is_read_as_it_is_shown() {
        for _ in 0..100 {
            let code = user_code().unwrap();
            assert_eq!(read_code(&shown_code(&code)), Some(code));
        }
    }
}
