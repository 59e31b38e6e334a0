//! POST `/addy/api/v1/aliases`: creates an alias.
//!
//! Bitwarden sends `domain` and `description` and reads `data.email`. Bitwarden shows the text of a
//! failure only for the statuses 401, 403 and 500 to 599.

use latchmail_sdk::capability::{Alias, AliasChange, Aliases, Caller, Error, Level, Log};
use latchmail_sdk::time::sql;
use latchmail_sdk::{Failed, Failure, Reply, Request, codes, name};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The maximum length of the note of an alias, in characters.
const MAX_NOTE: usize = 200;

/// An alias to create. Other fields of addy.io's API are ignored.
#[derive(Deserialize, ToSchema)]
pub(crate) struct NewAddyAlias {
    /// One of the domains on which the account may create aliases.
    domain: String,
    /// The purpose of the alias, which becomes its note.
    description: Option<String>,
    /// The part before the `@`. If it is absent, the alias gets a random name.
    local_part: Option<String>,
}

/// The response of addy.io.
#[derive(Serialize, ToSchema)]
pub(crate) struct CreatedAddyAlias {
    data: AddyAlias,
}

/// An alias in the form of addy.io.
#[derive(Serialize, ToSchema)]
pub(crate) struct AddyAlias {
    /// The id. Unlike an id of addy.io, it is no UUID.
    id: String,
    /// The part before the `@`.
    local_part: String,
    /// The part after the `@`.
    domain: String,
    /// The address.
    #[schema(format = Email)]
    email: String,
    /// Whether the alias receives mail.
    active: bool,
    /// The note of the alias.
    description: Option<String>,
    /// The time of creation, `YYYY-MM-DD HH:MM:SS` in UTC.
    created_at: Option<String>,
    /// The time of the last change, `YYYY-MM-DD HH:MM:SS` in UTC.
    updated_at: Option<String>,
}

impl From<Alias> for AddyAlias {
    fn from(alias: Alias) -> Self {
        let (local_part, domain) = alias.address.rsplit_once('@').unwrap_or_default();
        Self {
            id: alias.id.to_string(),
            local_part: local_part.into(),
            domain: domain.into(),
            active: alias.active,
            description: Some(alias.note).filter(|note| !note.is_empty()),
            created_at: alias.created_at.map(sql),
            updated_at: alias.modified_at.map(sql),
            email: alias.address,
        }
    }
}

/// Create an alias as addy.io does
#[utoipa::path(
    post,
    path = "/addy/api/v1/aliases",
    operation_id = "createAddyAlias",
    tag = "addy.io",
    request_body = NewAddyAlias,
    responses(
        (status = 201, description = "The alias", body = CreatedAddyAlias),
        (status = 400, description = "The domain is missing or not allowed, or the name is invalid or taken", body = Failed),
        (status = 409, description = "The account has the maximum number of aliases", body = Failed)
    )
)]
pub(crate) fn create_addy_alias(
    host: &(impl Aliases + Caller + Log),
    request: &Request,
) -> Result<Reply, Failure> {
    let body: NewAddyAlias = request.json()?;
    let name = match body.local_part {
        Some(name) => name,
        None => name::pronounceable()?,
    };
    let created = host.create_alias(&name, &body.domain);
    let mut alias = created.map_err(|error| failure(error, host))?;
    if let Some(note) = body.description.as_deref().map(note) {
        let change = AliasChange {
            active: None,
            note: Some(note),
            expiry: None,
        };
        // The alias exists and is usable without a note, so the response is no failure.
        match host.update_alias(alias.id, &change) {
            Ok(changed) => alias = changed,
            Err(error) => {
                let line = format!("the note of a new alias was not stored: {error:?}");
                host.write(Level::Warn, &line);
            }
        }
    }
    let data = alias.into();
    Reply::with_status(201, &CreatedAddyAlias { data })
}

/// Returns a description in the form of a note. The description contains the name of a website, and
/// can be longer than a note.
fn note(description: &str) -> String {
    let characters = description.chars().filter(|c| !c.is_control());
    characters.take(MAX_NOTE).collect()
}

/// Returns the failure with the same status as the routes of aliases.
fn failure(error: Error, host: &impl Caller) -> Failure {
    match error {
        Error::Conflict(problem) => Failure::of_problem(400, problem),
        Error::TooLarge(problem) => Failure::of_problem(409, problem),
        error => Failure::of(error, (codes::NOT_FOUND, "Not found"), host),
    }
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::Scope;
    use latchmail_sdk::testing::Service;
    use serde_json::{Value, json};

    const PATH: &str = "/addy/api/v1/aliases";

    /// Returns a service for a client with a token that can only create aliases.
    fn service() -> Service {
        let service = Service::of(crate::module());
        service.host.use_token(&[Scope::AliasesWrite]);
        service
    }

    /// Returns the body that Bitwarden sends.
    fn body(domain: &str) -> Value {
        let description = "Website: shop.example. Generated by Bitwarden.";
        json!({ "domain": domain, "description": description })
    }

    #[test]
    fn bitwarden_gets_a_random_address_with_a_note() {
        let service = service();
        let data = service.post(PATH, &body("example.test")).succeeds(201)["data"].take();
        let email = data["email"].as_str().unwrap();
        let (local_part, domain) = email.split_once('@').unwrap();
        assert_eq!((local_part.len(), domain), (23, "example.test"));
        let expected = json!({
            "id": "1", "local_part": local_part, "domain": domain, "email": email,
            "active": true, "description": body("")["description"],
            "created_at": "2026-11-20 08:00:00", "updated_at": "2026-11-20 08:00:00",
        });
        assert_eq!(data, expected);
    }

    #[test]
    fn an_alias_has_the_requested_name_and_a_note_of_limited_length() {
        let service = service();
        let body = json!({
            "domain": "example.test", "format": "custom", "local_part": "shop",
            "description": format!("a\n{}", "é".repeat(300)),
        });
        let created = service.post(PATH, &body).succeeds(201);
        assert_eq!(created["data"]["email"], "shop@example.test");
        let note = format!("a{}", "é".repeat(199));
        assert_eq!(created["data"]["description"], note);
        let taken = service.post(PATH, &body);
        taken.fails(400, "shop@example.test is already taken");
    }

    #[test]
    fn an_alias_without_a_description_has_no_note() {
        let body = json!({ "domain": "example.test", "description": null });
        let created = service().post(PATH, &body).succeeds(201);
        assert_eq!(created["data"]["description"], Value::Null);
    }

    #[test]
    fn a_missing_or_foreign_domain_is_refused() {
        let service = service();
        service
            .post(PATH, &json!({}))
            .fails(400, "domain is required");
        let foreign = service.post(PATH, &body("elsewhere.example"));
        foreign.fails(400, "You do not have permission to use this domain");
    }

    #[test]
    fn other_credentials_are_refused() {
        let service = service();
        service.host.use_token(&[Scope::AliasesRead]);
        let text = "This credential is missing the \"aliases:write\" scope";
        service.post(PATH, &body("example.test")).fails(403, text);
        service.host.sign_out();
        let refused = service.post(PATH, &body("example.test"));
        refused.fails(401, "Missing or invalid Authorization header");
    }
}
