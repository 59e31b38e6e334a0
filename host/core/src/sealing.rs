//! Encrypts ("seals") secrets that the service must read later, such as a session's app password.
//! The keys are not in the database, so a stolen database does not reveal sealed secrets.
//!
//! The algorithm is XChaCha20-Poly1305 with a random nonce. Sealed bytes consist of the nonce, the
//! ciphertext and the tag. A [`Keyring`](crate::keyring::Keyring) adds the id of the sealing key at
//! the start.
//!
//! Sealed bytes are bound to a purpose and to the id of a database row. They cannot be opened for
//! another purpose or row.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hkdf::Hkdf;
use hmac::{Hmac, Mac as _};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::error::Failure;
use crate::secrets;

const NONCE_LENGTH: usize = 24;

/// The HKDF label of the key for the nonces of [`SealingKey::seal_repeatably`].
const NONCES: &str = "latchmail v1 nonces HMAC-SHA-256";

/// Purpose of sealed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// App password of a web session. The row is identified by the session's `sid`.
    WebSession,
    /// App password of an API token, sealed with a key that is derived from the token. The row is
    /// identified by the token's id.
    ApiToken,
    /// Refresh token of the identity provider. The row is identified by the `sid` of a web session,
    /// or by the hash of a sign-in code.
    ProviderToken,
    /// Secret of a second factor. The row is identified by the account's id.
    TwoFactor,
    /// Private DKIM key of a domain. The row is identified by the domain.
    DkimKey,
    /// App password with which the service logs in to a shared mailbox for its members. The row is
    /// identified by the mailbox's id.
    TeamKey,
    /// App password with which the service reads a mailbox for the search index. The row is
    /// identified by the account's id.
    IndexKey,
    /// App password of an OAuth grant, sealed with a key that is derived from a token of the grant.
    /// The row is identified by the grant's id.
    OAuthGrant,
    /// State that is stored in the HTML form on a sign-in page. The state is bound to the secret in
    /// the browser's cookie instead of the id of a row.
    SignInPage,
    /// Cursor of the change log. The row is identified by the mailbox's id and, for a member, by
    /// the member's grants.
    ChangeCursor,
    /// The cookie of the operator's page. The cookie has no database row, so the row is the
    /// constant name of the cookie.
    OperatorPage,
    /// The cookie of the owner's page. The row is the constant name of the cookie.
    AccountPage,
    /// The key of an upload. The row is the id of the upload.
    UploadKey,
    /// The name or a chunk of an upload. The row is the id of the upload and the name of the value.
    Upload,
    /// The payload of a job. The row is the id of the job.
    Job,
    /// The key of an entry in the outbox. The row is the id of the entry.
    OutboxEntry,
    /// The details or a chunk of an entry in the outbox. The row is the id of the entry and the
    /// name of the value.
    OutboxContent,
    /// App password with which the service sends the messages in the outbox of an account. The row
    /// is identified by the account's id.
    OutboxKey,
    /// The settings of a webhook. The row is the id of the webhook.
    Webhook,
    /// The body of a delivery to a webhook. The row is the id of the delivery.
    WebhookBody,
    /// The key of the bytes of a change that a grant made. The row is a random id.
    GrantChange,
    /// A chunk of the bytes of a change. The row is the id of the key and the number of the chunk.
    GrantChangeContent,
    /// The `Authorization` header of a ticket, sealed with a key that is derived from the ticket.
    /// The row is the hash of the ticket.
    Ticket,
    /// The cursor of a list of the admin API. The row is the name of the list.
    ListCursor,
}

impl Purpose {
    const fn name(self) -> &'static str {
        match self {
            Self::WebSession => "web_session",
            Self::ApiToken => "api_token",
            Self::ProviderToken => "provider_token",
            Self::TwoFactor => "two_factor",
            Self::DkimKey => "dkim_key",
            Self::TeamKey => "team_key",
            Self::IndexKey => "index_key",
            Self::OAuthGrant => "oauth_grant",
            Self::SignInPage => "sign_in_page",
            Self::ChangeCursor => "change_cursor",
            Self::OperatorPage => "operator_page",
            Self::AccountPage => "account_page",
            Self::UploadKey => "upload_key",
            Self::Upload => "upload",
            Self::Job => "job",
            Self::OutboxEntry => "outbox_entry",
            Self::OutboxContent => "outbox_content",
            Self::OutboxKey => "outbox_key",
            Self::Webhook => "webhook",
            Self::WebhookBody => "webhook_body",
            Self::GrantChange => "grant_change",
            Self::GrantChangeContent => "grant_change_content",
            Self::Ticket => "ticket",
            Self::ListCursor => "list_cursor",
        }
    }

    /// Returns the associated data for the encryption. Different pairs of purpose and row have
    /// different associated data, because the name of a purpose contains no NUL.
    fn bound_to(self, row: &str) -> Vec<u8> {
        format!("latchmail v1 sealed\0{}\0{row}", self.name()).into_bytes()
    }
}

/// A key for XChaCha20-Poly1305.
pub struct SealingKey(pub(crate) Zeroizing<[u8; 32]>);

impl SealingKey {
    /// Derives a key from `secret` with the label `label` (HKDF-SHA256, RFC 5869).
    ///
    /// # Errors
    /// Returns an internal error if the key cannot be derived.
    pub fn derive(secret: &[u8], label: &str) -> Result<Self, Failure> {
        let mut key = Zeroizing::new([0; 32]);
        Hkdf::<Sha256>::new(None, secret)
            .expand(label.as_bytes(), key.as_mut_slice())
            .map_err(|error| Failure::internal(error.to_string()))?;
        Ok(Self(key))
    }

    /// Seals (encrypts) `secret`. The result can be opened (decrypted) only for the same purpose
    /// and the same database row `row`.
    ///
    /// # Errors
    /// Returns an internal error if the operating system provides no randomness.
    pub fn seal(
        &self,
        purpose: Purpose,
        row: &str,
        secret: &SecretString,
    ) -> Result<Vec<u8>, Failure> {
        self.seal_bytes(purpose, row, secret.expose_secret().as_bytes())
    }

    /// Seals bytes, like [`SealingKey::seal`].
    ///
    /// # Errors
    /// Returns an internal error if the operating system provides no randomness.
    pub fn seal_bytes(
        &self,
        purpose: Purpose,
        row: &str,
        secret: &[u8],
    ) -> Result<Vec<u8>, Failure> {
        let nonce = secrets::random::<NONCE_LENGTH>()?;
        self.seal_with(*nonce, purpose, row, secret)
    }

    /// Seals bytes in the same way as [`SealingKey::seal`], but the result is the same for the same
    /// purpose, row and bytes. The nonce is an HMAC of these values, so different values have
    /// different nonces.
    pub(crate) fn seal_repeatably(
        &self,
        purpose: Purpose,
        row: &str,
        bytes: &[u8],
    ) -> Result<Vec<u8>, Failure> {
        let key = Self::derive(self.0.as_slice(), NONCES)?;
        let mut mac = Hmac::<Sha256>::new_from_slice(key.0.as_slice())
            .map_err(|error| Failure::internal(error.to_string()))?;
        let bound_to = purpose.bound_to(row);
        mac.update(&(bound_to.len() as u64).to_be_bytes());
        mac.update(&bound_to);
        mac.update(bytes);
        let mac: [u8; 32] = mac.finalize().into_bytes().into();
        let mut nonce = [0; NONCE_LENGTH];
        nonce.copy_from_slice(&mac[..NONCE_LENGTH]);
        self.seal_with(nonce, purpose, row, bytes)
    }

    fn seal_with(
        &self,
        nonce: [u8; NONCE_LENGTH],
        purpose: Purpose,
        row: &str,
        secret: &[u8],
    ) -> Result<Vec<u8>, Failure> {
        let ciphertext = XChaCha20Poly1305::new((&*self.0).into())
            .encrypt(
                &XNonce::from(nonce),
                Payload {
                    msg: secret,
                    aad: &purpose.bound_to(row),
                },
            )
            .map_err(|_| Failure::internal("the secret is too long to be sealed"))?;
        Ok([nonce.as_slice(), &ciphertext].concat())
    }

    /// Opens (decrypts) bytes that [`SealingKey::seal`] sealed for the same purpose and row.
    /// Returns `None` if the bytes are damaged, or if the key, purpose or row is different.
    #[must_use]
    pub fn open(&self, purpose: Purpose, row: &str, sealed: &[u8]) -> Option<SecretString> {
        text(&self.open_bytes(purpose, row, sealed)?)
    }

    /// Opens sealed bytes. Returns `None` if the bytes cannot be opened for this purpose and row.
    #[must_use]
    pub fn open_bytes(
        &self,
        purpose: Purpose,
        row: &str,
        sealed: &[u8],
    ) -> Option<Zeroizing<Vec<u8>>> {
        let (nonce, ciphertext) = sealed.split_first_chunk::<NONCE_LENGTH>()?;
        XChaCha20Poly1305::new((&*self.0).into())
            .decrypt(
                &XNonce::from(*nonce),
                Payload {
                    msg: ciphertext,
                    aad: &purpose.bound_to(row),
                },
            )
            .map(Zeroizing::new)
            .ok()
    }
}

pub(crate) fn text(secret: &[u8]) -> Option<SecretString> {
    Some(SecretString::from(std::str::from_utf8(secret).ok()?))
}
