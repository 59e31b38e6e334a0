//! Processes requests to a complete module in the same way as the host. The service finds the
//! route, checks the credential and the scope, and parses the request.

use std::cell::RefCell;

use latchmail_shape::{AGENT, API_TOKEN, APP_PASSWORD, OAUTH, SESSION, codes};
use serde::Serialize;
use serde_json::Value;

use super::host::{SESSION_ONLY, missing};
use super::{FakeHost, Response, blob_fields, manifest, route};
use crate::bindings::exports::latchmail::host::module::{Access, BodyForm, Manifest, Route};
use crate::capability::{Blob, Caller as _, Kind};
use crate::failure::Failure;
use crate::message::{Reply, Request};
use crate::module::Module;

/// The scopes of routes that can allow OAuth access tokens.
const OPEN_TO_OAUTH: [&str; 3] = ["mail:read", "mail:write", "aliases:read"];

/// The error message for a kind of credential that the route does not accept.
const NOT_ACCEPTED: &str = "This endpoint does not accept this kind of credential";

/// A module together with a [`FakeHost`].
pub struct Service {
    /// The host of the module.
    pub host: FakeHost,
    module: Module<FakeHost>,
    manifest: Manifest,
}

impl Service {
    /// Creates a service for a module. `ada@example.test` is signed in.
    ///
    /// # Panics
    /// Panics if hosts refuse to load the module. The panic message contains the reason.
    #[must_use]
    #[track_caller]
    pub fn of(module: Module<FakeHost>) -> Self {
        if let Some(reason) = manifest::manifest_error(&module) {
            panic!("no host would load this module: {reason}");
        }
        Self {
            host: FakeHost::new(),
            manifest: module.manifest(),
            module,
        }
    }

    /// Sends a GET request and returns the response.
    #[must_use]
    pub fn get(&self, path: &str) -> Response {
        self.request("GET", path, &[], Vec::new())
    }

    /// Sends a POST request with a JSON body and returns the response.
    ///
    /// # Panics
    /// Panics if the body cannot be serialized.
    #[track_caller]
    pub fn post(&self, path: &str, body: &impl Serialize) -> Response {
        self.request("POST", path, &[], json(body))
    }

    /// Sends a PUT request with a JSON body and returns the response.
    ///
    /// # Panics
    /// Panics if the body cannot be serialized.
    #[track_caller]
    pub fn put(&self, path: &str, body: &impl Serialize) -> Response {
        self.request("PUT", path, &[], json(body))
    }

    /// Sends a PATCH request with a JSON body and returns the response.
    ///
    /// # Panics
    /// Panics if the body cannot be serialized.
    #[track_caller]
    pub fn patch(&self, path: &str, body: &impl Serialize) -> Response {
        self.request("PATCH", path, &[], json(body))
    }

    /// Sends a DELETE request and returns the response.
    pub fn delete(&self, path: &str) -> Response {
        self.request("DELETE", path, &[], Vec::new())
    }

    /// Sends any request and returns the response. `path` is the percent-encoded path with the
    /// query. Headers that modules never receive are removed.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Response {
        let reply = self.serve(method, path, headers, body);
        reply.unwrap_or_else(Reply::from).into()
    }

    fn serve(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        mut body: Vec<u8>,
    ) -> Result<Reply, Failure> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let routes = route::at(&self.manifest.routes, path);
        if routes.is_empty() {
            return Err(Failure::not_found(
                codes::ROUTE_NOT_FOUND,
                "There is no such route",
            ));
        }
        let route = routes.into_iter().find(|r| r.method == method);
        let route = route.ok_or_else(|| {
            Failure::new(
                405,
                codes::METHOD_NOT_ALLOWED,
                "This route does not support this method",
            )
        })?;
        self.admit(route)?;
        let undecoded = |code, what| {
            Failure::bad_request(
                code,
                format!("The {what} is not valid percent-encoded UTF-8"),
            )
        };
        let values = route::values(&route.path, path)
            .ok_or_else(|| undecoded(codes::INVALID_PATH_ENCODING, "path"))?;
        let query = latchmail_shape::decode_query(query)
            .ok_or_else(|| undecoded(codes::INVALID_QUERY_ENCODING, "query"))?;
        if body.len() > route.max_body as usize {
            return Err(too_large(route.max_body));
        }
        let mut blobs = Vec::new();
        if !route.blob_fields.is_empty()
            && let Ok(mut value) = serde_json::from_slice::<Value>(&body)
        {
            blobs = blob_fields::take(&mut value, &route.blob_fields)?;
            body = value.to_string().into_bytes();
        }
        if route.body == BodyForm::Blob {
            blobs.push(Blob::Bytes(std::mem::take(&mut body)));
        }
        let request = Request {
            id: "a-request".into(),
            path: values,
            query,
            headers: passed_headers(headers),
            body,
            blobs: RefCell::new(blobs.into_iter().map(Some).collect()),
        };
        let serve = || self.module.serve(&self.host, &route.operation, &request);
        // As in the real host, a request to a public route has no caller, even if an account is
        // signed in.
        Ok(match &route.access {
            Access::Public => self.host.anonymously(serve),
            Access::Credentials(_) => serve(),
        })
    }

    /// Checks whether the caller is allowed to use the route.
    fn admit(&self, route: &Route) -> Result<(), Failure> {
        let caller = self.host.current();
        let Access::Credentials(accepted) = &route.access else {
            return Ok(());
        };
        let only = |kind: &str| accepted.len() == 1 && accepted[0].kind == kind;
        let kind = match caller.kind() {
            Kind::Session if !only(AGENT) => SESSION,
            Kind::ApiToken if !only(AGENT) => API_TOKEN,
            Kind::Oauth if only(AGENT) => AGENT,
            Kind::Oauth => OAUTH,
            Kind::AppPassword if accepted.iter().any(|one| one.kind == APP_PASSWORD) => {
                APP_PASSWORD
            }
            _ => {
                return Err(Failure::new(
                    401,
                    codes::INVALID_AUTHORIZATION_HEADER,
                    "Missing or invalid Authorization header",
                ));
            }
        };
        let Some(one) = accepted.iter().find(|one| one.kind == kind) else {
            let needed = accepted.iter().find_map(|one| one.scope.as_deref());
            return Err(match needed {
                _ if only(SESSION) => Failure::new(403, codes::SESSION_REQUIRED, SESSION_ONLY),
                Some(scope) => Failure::new(403, codes::MISSING_SCOPE, missing(scope)),
                None => Failure::new(403, codes::CREDENTIAL_NOT_ACCEPTED, NOT_ACCEPTED),
            });
        };
        match one.scope.as_deref() {
            None => Ok(()),
            Some(scope)
                if caller.scopes.iter().any(|held| held == scope)
                    && (kind != OAUTH || OPEN_TO_OAUTH.contains(&scope)) =>
            {
                Ok(())
            }
            Some(scope) => Err(Failure::new(403, codes::MISSING_SCOPE, missing(scope))),
        }
    }
}

fn passed_headers(headers: &[(&str, &str)]) -> Vec<(String, String)> {
    let lower = headers
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), (*value).to_owned()));
    lower
        .filter(|(name, _)| latchmail_shape::REQUEST_HEADERS.contains(&name.as_str()))
        .collect()
}

fn too_large(most: u32) -> Failure {
    if most == 0 {
        return Failure::new(
            413,
            codes::BODY_NOT_ALLOWED,
            "This route accepts no request body",
        );
    }
    Failure::new(
        413,
        codes::BODY_TOO_LARGE,
        format!("The request's body is larger than {most} bytes"),
    )
}

#[track_caller]
fn json(body: &impl Serialize) -> Vec<u8> {
    match serde_json::to_vec(body) {
        Ok(body) => body,
        Err(error) => panic!("cannot serialize the body as JSON: {error}"),
    }
}
