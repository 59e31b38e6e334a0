//! GET and PUT `/api/v1/digest/settings`: reads and changes the caller's settings of the digest.

use latchmail_sdk::capability::{Caller, Error, Store};
use latchmail_sdk::{Code, Failure, Reply, Request, codes, stored};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The error code for a list of folders that is empty or too long.
pub(crate) const FOLDERS_INVALID: Code = Code::new("digest_folders_invalid");
/// The error code for a limit that is out of range.
pub(crate) const LIMIT_INVALID: Code = Code::new("digest_limit_invalid");

/// The key of the settings in the store.
const KEY: &str = "settings";

/// The maximum number of folders in a digest. A digest requires one request to the mail server for
/// each folder.
const MAX_FOLDERS: usize = 10;

/// The maximum number of messages in a digest.
const MAX_MESSAGES: usize = 100;

/// The settings of a digest.
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct Settings {
    /// The paths of the folders, 1 to 10. Folders that do not exist are ignored.
    #[schema(min_items = 1, max_items = 10)]
    pub(crate) folders: Vec<String>,
    /// The maximum number of messages in the digest.
    #[schema(minimum = 1, maximum = 100)]
    pub(crate) limit: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            folders: vec!["INBOX".into()],
            limit: 20,
        }
    }
}

impl Settings {
    /// Returns the caller's settings, or the defaults if the caller has no settings.
    pub(crate) fn read(host: &impl Store) -> Result<Self, Error> {
        Ok(stored::read(host, KEY)?.unwrap_or_default())
    }

    fn check(&self) -> Result<(), Failure> {
        if !(1..=MAX_FOLDERS).contains(&self.folders.len()) {
            return Err(Failure::bad_request(
                FOLDERS_INVALID,
                "`folders` must contain 1 to 10 folders",
            ));
        }
        if !(1..=MAX_MESSAGES).contains(&self.limit) {
            return Err(Failure::bad_request(
                LIMIT_INVALID,
                "limit must be 1 to 100",
            ));
        }
        Ok(())
    }
}

/// Read the settings of the digest
#[utoipa::path(
    get,
    path = "/api/v1/digest/settings",
    operation_id = "getDigestSettings",
    tag = "Digest",
    responses((status = 200, description = "The settings", body = Settings))
)]
pub(crate) fn get_digest_settings(
    host: &(impl Caller + Store),
    _: &Request,
) -> Result<Reply, Failure> {
    let settings = Settings::read(host)
        .map_err(|error| Failure::of(error, (codes::NOT_FOUND, "Not found"), host))?;
    Reply::json(&settings)
}

/// Change the settings of the digest
#[utoipa::path(
    put,
    path = "/api/v1/digest/settings",
    operation_id = "setDigestSettings",
    tag = "Digest",
    request_body = Settings,
    responses(
        (status = 200, description = "The settings as they are now", body = Settings),
        (status = 400, description = "`folders` must contain 1 to 10 folders, `limit must be 1 to 100`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn set_digest_settings(
    host: &(impl Caller + Store),
    request: &Request,
) -> Result<Reply, Failure> {
    let settings: Settings = request.json()?;
    settings.check()?;
    stored::write(host, KEY, &settings)
        .map_err(|error| Failure::of(error, (codes::NOT_FOUND, "Not found"), host))?;
    Reply::json(&settings)
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::testing::Service;
    use serde_json::json;

    const PATH: &str = "/api/v1/digest/settings";

    #[test]
    fn settings_are_stored_and_returned() {
        let service = Service::of(crate::module());
        let usual = json!({ "folders": ["INBOX"], "limit": 20 });
        assert_eq!(service.get(PATH).succeeds(200), usual);
        let settings = json!({ "folders": ["INBOX", "Work/Ü"], "limit": 5 });
        assert_eq!(service.put(PATH, &settings).succeeds(200), settings);
        assert_eq!(service.get(PATH).succeeds(200), settings);
    }

    #[test]
    fn settings_out_of_range_are_refused_and_not_stored() {
        let service = Service::of(crate::module());
        let many: Vec<String> = (0..11).map(|n| n.to_string()).collect();
        for (body, text) in [
            (json!({ "limit": 5 }), "folders is required"),
            (
                json!({ "folders": [], "limit": 5 }),
                "`folders` must contain 1 to 10 folders",
            ),
            (
                json!({ "folders": many, "limit": 5 }),
                "`folders` must contain 1 to 10 folders",
            ),
            (
                json!({ "folders": ["INBOX"], "limit": 0 }),
                "limit must be 1 to 100",
            ),
            (
                json!({ "folders": ["INBOX"], "limit": 101 }),
                "limit must be 1 to 100",
            ),
            (
                json!({ "folders": [7], "limit": 5 }),
                "folders[0] must be a string",
            ),
        ] {
            service.put(PATH, &body).fails(400, text);
        }
        assert!(service.host.stored_values().is_empty());
    }

    #[test]
    fn an_exceeded_quota_is_reported() {
        let service = Service::of(crate::module());
        service.host.set_quota(10);
        let response = service.put(PATH, &json!({ "folders": ["INBOX"], "limit": 5 }));
        assert_eq!(response.status, 413);
    }

    #[test]
    fn a_token_cannot_change_settings() {
        let service = Service::of(crate::module());
        service
            .host
            .use_token(&latchmail_sdk::scope::ALL.map(|(scope, _)| scope));
        let refused = service.put(PATH, &json!({ "folders": ["INBOX"], "limit": 5 }));
        assert_eq!(refused.status, 403);
    }
}
