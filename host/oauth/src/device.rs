//! Implements the device grant (RFC 8628) for devices without a browser. The device shows a code of
//! eight letters. The user opens a page of this service in a browser, enters the code and signs in.

use std::net::IpAddr;
use std::time::Duration;

use latchmail_accounts::auth::oauth_tokens::{IssuedToken, Use};
use latchmail_core::caller::Origin;
use latchmail_core::error::Failure;
use latchmail_core::secrets;
use latchmail_directory::oauth::{Approval, Device, NewDevice};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;
use utoipa::ToSchema;

use super::clients::{ClientCredentials, NO_DEVICES, check_grant_type};
use super::error::{Error, Refusal};
use super::parameters::Parameters;
use super::{BY_DEVICE_CODE, OAuth};

/// The letters of user codes (RFC 8628, section 6.1). Vowels are omitted, so that codes are not
/// words. Letters that look like other letters are omitted too.
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
/// The length of a user code, in letters. Eight letters contain 34 random bits. The rate limit of
/// the page for user codes allows each client five guesses per minute.
const LENGTH: usize = 8;

/// The lifetime of a device code and its user code.
const LIFETIME: Duration = Duration::from_mins(10);
/// The minimum interval between two requests of a device to the token endpoint. The interval
/// increases for a device that sends requests too quickly.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The device authorization response (RFC 8628, section 3.2).
#[derive(Serialize, ToSchema)]
#[schema(as = DeviceAuthorization)]
pub struct DeviceResponse {
    /// The code that the device exchanges at the token endpoint.
    device_code: String,
    /// The code that the user enters on the page.
    user_code: String,
    /// The URL of the page.
    verification_uri: String,
    /// The URL of the page, with the user code in its query.
    verification_uri_complete: String,
    /// The lifetime of both codes, in seconds.
    expires_in: u64,
    /// The minimum number of seconds between two requests to the token endpoint.
    interval: u64,
}

impl OAuth {
    /// Starts the authorization of a device with the IP address `from`. Returns a device code and a
    /// user code.
    ///
    /// # Errors
    /// Returns an OAuth error if the request is invalid, or 500 if the directory fails.
    pub async fn begin_device(
        &self,
        parameters: &Parameters,
        basic: Option<(&str, &str)>,
        from: IpAddr,
    ) -> Result<DeviceResponse, Error> {
        let client = self
            .authenticated(ClientCredentials::of(parameters, basic)?)
            .await?;
        check_grant_type(&client, BY_DEVICE_CODE)?;
        if client.secret_hash.is_none() && !self.device_grant {
            return Err(Refusal::new("unauthorized_client", NO_DEVICES).into());
        }
        let resource = self.resource(parameters)?;
        let scope = self.granted_scope(&client.id, parameters)?;
        let device = IssuedToken::generate(Use::Device)?;
        let user_code = user_code()?;
        let stored = NewDevice {
            hash: device.hash().to_owned(),
            user_code: user_code.clone(),
            client_id: client.id,
            client_name: client.name,
            resource,
            scope,
            patience: POLL_INTERVAL,
            expires_at: self.clock.now().plus(LIFETIME),
        };
        self.directory.oauth.add_device(&stored, from).await?;
        let shown = shown_code(&user_code);
        let page = format!("{}/device", self.issuer);
        Ok(DeviceResponse {
            device_code: device.secret().expose_secret().to_owned(),
            verification_uri_complete: format!("{page}?user_code={shown}"),
            verification_uri: page,
            user_code: shown,
            expires_in: LIFETIME.as_secs(),
            interval: POLL_INTERVAL.as_secs(),
        })
    }

    /// Returns the device with this user code, if the device waits for authorization. Otherwise
    /// returns `None`. The user code must be in the form that [`read_code`] returns.
    ///
    /// # Errors
    /// Returns 500 if the directory fails.
    pub async fn waiting_device(&self, user_code: &str) -> Result<Option<Device>, Failure> {
        let now = self.clock.now();
        Ok(self.directory.oauth.waiting_device(user_code, now).await?)
    }

    /// Verifies the user's credentials and authorizes the device with this user code.
    ///
    /// # Errors
    /// Returns the errors of [`latchmail_accounts::auth::OAuthTokens::agree`] if the credentials
    /// are rejected or the authorization cannot be stored.
    pub async fn agree_to_device(
        &self,
        user_code: &str,
        address: &str,
        password: SecretString,
        second: Option<&SecretString>,
        origin: &Origin,
    ) -> Result<(), Failure> {
        let agreement = Approval::Device(user_code);
        self.auth
            .oauth_tokens
            .agree(address, password, second, agreement, origin)
            .await
    }

    /// Denies access to the device with this user code. A user who has already authorized the
    /// device can still deny it until the device receives tokens. Returns `false` if there is no
    /// such device.
    ///
    /// # Errors
    /// Returns 500 if the directory fails.
    pub async fn deny_device(&self, user_code: &str) -> Result<bool, Failure> {
        let now = self.clock.now();
        Ok(self.directory.oauth.deny_device(user_code, now).await?)
    }
}

/// Converts a user code that a user typed to the form in the database. Ignores letter case, white
/// space and the separators `-`, `_` and `.`. Returns `None` if the text is not a user code.
#[must_use]
pub fn read_code(typed: &str) -> Option<String> {
    let symbols = typed
        .chars()
        .filter(|c| !c.is_whitespace() && !matches!(c, '-' | '_' | '.'));
    let code: String = symbols.map(|c| c.to_ascii_uppercase()).collect();
    let letters = code.bytes().all(|byte| LETTERS.contains(&byte));
    (code.len() == LENGTH && letters).then_some(code)
}

/// Returns a user code in the form for users, for example `BCDF-GHJK`.
#[must_use]
pub fn shown_code(code: &str) -> String {
    let (first, second) = code.split_at_checked(LENGTH / 2).unwrap_or((code, ""));
    format!("{first}-{second}")
}

fn user_code() -> Result<String, Failure> {
    let mut code = String::with_capacity(LENGTH);
    while code.len() < LENGTH {
        // 240 is a multiple of the number of letters, which is 20. Bytes from 240 to 255 are
        // skipped, because otherwise some letters would be more likely than others.
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
