// The module's part of the API description, as OpenAPI 3.1 has it. Who may call a route, which scope it needs and the failures that all routes share are
// added by the host.

const id = { type: 'integer', format: 'int64', minimum: 1, maximum: Number.MAX_SAFE_INTEGER };
const date = { type: 'string', example: '2026-11-20 08:00:00' };

const schema = (name) => ({ $ref: `#/components/schemas/${name}` });
const content = (name) => ({ 'application/json': { schema: schema(name) } });
const answer = (description, name) => ({ description, content: content(name) });
const body = (name) => ({ required: true, content: content(name) });
const parameter = (where, name, description, type) => ({ name, in: where, required: true, description, schema: type });

const query = [
  parameter('query', 'name', 'The part before the `@`', { type: 'string' }),
  parameter('query', 'domain', 'The part behind it', { type: 'string' }),
];
const byId = [parameter('path', 'id', "The alias's id", { type: 'integer', format: 'int64', minimum: 1 })];

export const description = {
  paths: {
    '/api/v1/aliases': {
      get: {
        operationId: 'listAliases',
        tags: ['Aliases'],
        summary: 'List aliases',
        responses: { 200: answer('The aliases', 'AliasList') },
      },
      post: {
        operationId: 'createAlias',
        tags: ['Aliases'],
        summary: 'Create an alias',
        description:
          'Mail for it arrives at once, and it may be sent from. A random name can be said aloud and not be guessed. An address that was ' +
          "somebody's is taken; its former owner may have it again.",
        requestBody: body('AliasRequest'),
        responses: {
          201: answer('The alias', 'CreatedAlias'),
          400: answer(
            "`domain is required`, `<address> is already taken`, a name that will not do, a domain that is not the account's to use",
            'Error',
          ),
          409: answer('The account has as many aliases as it may', 'Error'),
        },
      },
    },
    '/api/v1/aliases/domains': {
      get: {
        operationId: 'listAliasDomains',
        tags: ['Aliases'],
        summary: 'List the domains that aliases may be on',
        responses: { 200: answer('The domains', 'AliasDomainList') },
      },
    },
    '/api/v1/aliases/check': {
      get: {
        operationId: 'checkAlias',
        tags: ['Aliases'],
        summary: 'Check whether an alias could be made',
        description: 'Nothing is held: somebody else may have it meanwhile.',
        parameters: query,
        responses: {
          200: answer('Whether it could, and why not', 'AliasCheck'),
          400: answer('`name and domain query params required`', 'Error'),
        },
      },
    },
    '/api/v1/aliases/{id}': {
      patch: {
        operationId: 'updateAlias',
        tags: ['Aliases'],
        summary: 'Switch an alias on or off',
        description: "An inactive alias takes no mail and may not be sent from; it stays the account's.",
        parameters: byId,
        requestBody: body('AliasChange'),
        responses: {
          200: answer('It is so', 'Success'),
          400: answer('`Invalid alias ID`, `active (boolean) is required`', 'Error'),
          404: answer('`Alias not found or not owned by you`', 'Error'),
        },
      },
      delete: {
        operationId: 'deleteAlias',
        tags: ['Aliases'],
        summary: 'Delete an alias',
        description: 'It takes no mail from now on and may not be sent from. What was delivered stays; nobody else gets the address.',
        parameters: byId,
        responses: {
          200: answer('It is gone', 'Success'),
          400: answer('`Invalid alias ID`', 'Error'),
          404: answer('`Alias not found or not owned by you`', 'Error'),
        },
      },
    },
  },
  components: {
    schemas: {
      Alias: {
        description: 'A further address.',
        type: 'object',
        required: ['id', 'address', 'active'],
        properties: {
          id: { ...id, description: 'Derived from the address: the same as long as the alias exists.' },
          address: { type: 'string', format: 'email', description: 'The address, in lower case.' },
          active: { type: 'boolean', description: 'Whether it delivers and may be used as a sender.' },
          created: {
            ...date,
            description: 'When it was made, `YYYY-MM-DD HH:MM:SS` in UTC; absent for one that the service never saw being made.',
          },
          modified: { ...date, description: 'When it was last changed, likewise.' },
        },
      },
      AliasList: {
        description: 'The aliases of an account.',
        type: 'object',
        required: ['aliases'],
        properties: {
          aliases: { type: 'array', items: schema('Alias'), description: 'By address, inactive ones among them.' },
        },
      },
      AliasRequest: {
        description: 'An alias to be made.',
        type: 'object',
        required: ['domain'],
        properties: {
          domain: { type: 'string', description: 'One of the domains that aliases may be on.' },
          name: {
            type: ['string', 'null'],
            minLength: 2,
            maxLength: 64,
            description:
              'The part before the `@`: lower-case letters, digits, dots, hyphens and underscores, a letter or a digit first and last, no two ' +
              'dots in a row. A random one where absent.',
          },
        },
      },
      CreatedAlias: {
        description: 'An alias that was made.',
        type: 'object',
        required: ['alias', 'id'],
        properties: {
          alias: { type: 'string', format: 'email', description: 'The address.' },
          id: { ...id, description: 'Its id.' },
        },
      },
      AliasDomain: {
        description: 'A domain that there may be aliases on.',
        type: 'object',
        required: ['domain'],
        properties: { domain: { type: 'string', description: 'Its name, in lower case and ASCII.' } },
      },
      AliasDomainList: {
        description: 'The domains that there may be aliases on.',
        type: 'object',
        required: ['domains'],
        properties: {
          domains: {
            type: 'array',
            items: schema('AliasDomain'),
            description: "Those of the platform, then the account's own that are active.",
          },
        },
      },
      AliasCheck: {
        description: 'Whether an alias could be made at this moment.',
        type: 'object',
        required: ['available'],
        properties: {
          available: { type: 'boolean', description: 'Whether it could.' },
          error: { type: 'string', description: 'Why not; absent where it could.' },
        },
      },
      AliasChange: {
        description: 'What an alias is to be.',
        type: 'object',
        required: ['active'],
        properties: {
          active: { type: 'boolean', description: 'Whether it is to deliver and may be used as a sender.' },
        },
      },
      Success: {
        description: 'A response that only reports success.',
        type: 'object',
        required: ['success'],
        properties: { success: { type: 'boolean', description: 'Always true.' } },
      },
    },
  },
};
