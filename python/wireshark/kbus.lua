-- SPDX-License-Identifier: MIT
--
-- Shows what `kbus record` has recorded in Wireshark and tshark, from version 4.0. To use it, copy it to the directory
-- that `tshark -G folders` calls "Personal Lua Plugins", or give it to them with -X lua_script:kbus.lua.
--
-- A packet is the recorder's frame header and then the message as it was read, in the byte order of the machine that
-- recorded it. The order is found out for each packet, since files that were merged may have both.

local kbus = Proto("kbus", "KBUS")
kbus.prefs.check_crc = Pref.bool("Check CRCs", true, "This takes time where messages are large")

-- The shortest header, with what tells where a message is from, and a later one may be longer
local FRAME_VERSION, FRAME_HEADER, WITH_ORIGIN, AFTER_CRC = 1, 32, 40, 8
local MESSAGE_HEADER, EXTENSION, END_GUARD_SIZE = 40, 16, 4
local START_GUARD, END_GUARD = 0x7375626B, 0x6B627573
local WANT_A_REPLY, SYNTHETIC, EXTENDED = 0x1, 0x4, 0x400
local NANOSECONDS = UInt64.new(1000000000)
local INFO_DATA = 100 -- bytes of the data that the column Info shows

-- What is shown

local f = {
	frame_version = ProtoField.uint16("kbus.frame.version", "Version of the layout"),
	frame_header_len = ProtoField.uint16("kbus.frame.header_len", "Length of the frame header"),
	crc = ProtoField.uint32("kbus.frame.crc", "CRC-32", base.HEX),
	crc_status = ProtoField.string("kbus.frame.crc.status", "CRC is"),
	sequence = ProtoField.uint64("kbus.frame.sequence", "Sequence number of the recorder"),
	monotonic = ProtoField.relative_time("kbus.frame.monotonic", "Monotonic clock"),
	lost = ProtoField.uint64("kbus.frame.lost", "Messages lost so far"),
	bus = ProtoField.uint32("kbus.frame.bus", "Number of the device"),
	recording = ProtoField.uint32("kbus.frame.recording", "Recording", base.HEX),
	lost_here = ProtoField.uint64("kbus.frame.lost_here", "Messages lost since the packet before"),
	start_guard = ProtoField.uint32("kbus.start_guard", "Start guard", base.HEX),
	id = ProtoField.string("kbus.id", "Id"),
	id_network = ProtoField.uint32("kbus.id.network", "Network id"),
	id_serial = ProtoField.uint32("kbus.id.serial", "Serial number"),
	in_reply_to = ProtoField.string("kbus.in_reply_to", "In reply to"),
	in_reply_to_network = ProtoField.uint32("kbus.in_reply_to.network", "Network id"),
	in_reply_to_serial = ProtoField.uint32("kbus.in_reply_to.serial", "Serial number"),
	to = ProtoField.uint32("kbus.to", "To KSock"),
	from = ProtoField.uint32("kbus.from", "From KSock"),
	flags = ProtoField.uint32("kbus.flags", "Flags", base.HEX),
	name_len = ProtoField.uint32("kbus.name_len", "Length of the name, in bytes"),
	data_len = ProtoField.uint32("kbus.data_len", "Length of the data, in words"),
	orig_from = ProtoField.string("kbus.orig_from", "Originally from"),
	orig_from_network = ProtoField.uint32("kbus.orig_from.network", "Network id"),
	orig_from_local = ProtoField.uint32("kbus.orig_from.local", "Local id"),
	final_to = ProtoField.string("kbus.final_to", "Finally to"),
	final_to_network = ProtoField.uint32("kbus.final_to.network", "Network id"),
	final_to_local = ProtoField.uint32("kbus.final_to.local", "Local id"),
	name = ProtoField.string("kbus.name", "Name"),
	data = ProtoField.bytes("kbus.data", "Data"),
	data_text = ProtoField.string("kbus.data.text", "Data as text"),
	end_guard = ProtoField.uint32("kbus.end_guard", "End guard", base.HEX),
	kind = ProtoField.string("kbus.kind", "Kind"),
	answer_in = ProtoField.framenum("kbus.answer_in", "Answer in", base.NONE, frametype.RESPONSE),
	answer_to = ProtoField.framenum("kbus.answer_to", "Answer to", base.NONE, frametype.REQUEST),
	response_time = ProtoField.relative_time("kbus.response_time", "Response time"),
	event_lost = ProtoField.uint32("kbus.event.lost", "Messages lost"),
	event_is_bind = ProtoField.bool("kbus.event.is_bind", "Is bound now"),
	event_binder = ProtoField.uint32("kbus.event.binder", "Binder, a KSock"),
	event_name_len = ProtoField.uint32("kbus.event.name_len", "Length of the name, in bytes"),
	event_name = ProtoField.string("kbus.event.name", "Name"),
}

-- In the order of the lines of `kbus listen`: bits, small letter there, field.
local FLAGS = {
	{ 0x1, "", ProtoField.bool("kbus.flags.want_a_reply", "Want a reply", 32, nil, 0x1) },
	{ 0x2, "y", ProtoField.bool("kbus.flags.want_you_to_reply", "Want you to reply", 32, nil, 0x2) },
	{ 0x8, "u", ProtoField.bool("kbus.flags.urgent", "Urgent", 32, nil, 0x8) },
	{ 0x100, "w", ProtoField.bool("kbus.flags.all_or_wait", "All or wait", 32, nil, 0x100) },
	{ 0x200, "f", ProtoField.bool("kbus.flags.all_or_fail", "All or fail", 32, nil, 0x200) },
	{ 0x4, "s", ProtoField.bool("kbus.flags.synthetic", "Synthetic", 32, nil, 0x4) },
	{ 0x400, "", ProtoField.bool("kbus.flags.extended", "Extended", 32, nil, 0x400) },
	{ 0x0000F8F0, "", ProtoField.uint32("kbus.flags.reserved", "Reserved", base.HEX, nil, 0x0000F8F0) },
	{ 0x3FFF0000, "", ProtoField.uint32("kbus.flags.user", "User's", base.HEX, nil, 0x3FFF0000) },
	{ 0xC0000000, "", ProtoField.uint32("kbus.flags.data_pad", "Padding bytes of the data", base.DEC, nil, 0xC0000000) },
}

local function mark(abbreviation, text, group, severity)
	return ProtoExpert.new("kbus.expert." .. abbreviation, text, group, severity)
end

local group, severity = expert.group, expert.severity
local e = {
	cut = mark("cut", "Only a part of the packet is here", group.COMMENTS_GROUP, severity.NOTE),
	malformed = mark("malformed", "This is no packet of `kbus record`", group.MALFORMED, severity.ERROR),
	bad_crc = mark("bad_crc", "The CRC is wrong", group.CHECKSUM, severity.ERROR),
	lost = mark("lost", "Messages were lost", group.SEQUENCE, severity.WARN),
	status = mark("status", "KBUS answers in place of the replier", group.RESPONSE_CODE, severity.WARN),
	failed = mark("failed", "The replier answers that it failed", group.RESPONSE_CODE, severity.WARN),
	no_request = mark("no_request", "The request is not in this file", group.SEQUENCE, severity.NOTE),
	no_answer = mark("no_answer", "The answer is not in this file", group.SEQUENCE, severity.NOTE),
}

local fields, experts = {}, {}
for _, field in pairs(f) do table.insert(fields, field) end
for _, flag in ipairs(FLAGS) do table.insert(fields, flag[3]) end
for _, each in pairs(e) do table.insert(experts, each) end
kbus.fields, kbus.experts = fields, experts

-- What is remembered from packet to packet

local section, interface_id = Field.new("frame.section_number"), Field.new("frame.interface_id")
-- Fields have values only where Wireshark makes the whole tree, and a listener with a filter has it do that when it
-- reads a file. In the first pass of `tshark -2` it takes a read filter (-R kbus).
Listener.new("frame", "frame.interface_id or frame.section_number")

local requests -- by device, by id, the latest: {frame =, monotonic =, from =, answer =}
local exchanges -- the same, by the number of the frame of the request and of each answer
local before -- by device: what its packet before said: {sequence =, monotonic =, lost =}
local latest -- the section and the sequence number of the packet before: {section =, sequence =}
local lost_here -- by the number of the frame: messages lost since the packet before, false if none

local function forget_recording()
	requests, before, latest = {}, {}, nil
end

function kbus.init()
	exchanges, lost_here = {}, {}
	forget_recording()
end

-- What tells the device from others in the file; nil if that is not known in this pass.
local function device()
	local number = interface_id()
	return number and tostring(number)
end

-- Forgets the recording of the packets before if this one, of that device, is of another, whose numbers, clock and
-- ids may be others. A recorder counts on from file to file, over all its devices.
local function note_recording(where, sequence, monotonic)
	local in_section = section() and section().value
	if latest and latest.section ~= in_section and sequence ~= latest.sequence + 1 then forget_recording() end
	latest = { section = in_section, sequence = sequence }
	-- Tools that write several recordings to one section may have one device for those of each.
	local last = before[where]
	if last and (sequence <= last.sequence or monotonic < last.monotonic) then
		before[where], requests[where] = nil, nil
	end
end

local function note_packet(number, sequence, monotonic, lost)
	local where = device()
	if not where or lost_here[number] ~= nil then return end
	note_recording(where, sequence, monotonic)
	local last = before[where]
	lost_here[number] = last and lost > last.lost and lost - last.lost
	before[where] = { sequence = sequence, monotonic = monotonic, lost = lost }
end

local function note_exchange(number, m, monotonic)
	local where = device() or "any"
	local asked = requests[where] or {}
	if m.in_reply_to then
		local request = asked[m.in_reply_to]
		-- No answer comes before what it answers: this one is of another recording.
		if request and request.from == m.to and request.monotonic <= monotonic then
			request.answer = request.answer or number
			exchanges[number] = request
		end
	elseif m.kind == "request" then
		exchanges[number] = { frame = number, monotonic = monotonic, from = m.from }
		asked[m.id] = exchanges[number]
		requests[where] = asked
	end
end

-- Numbers and texts

local crc_table = {}
for index = 0, 255 do
	local crc = index
	for _ = 1, 8 do
		crc = bit.bxor(bit.rshift(crc, 1), bit.band(crc, 1) * 0xEDB88320)
	end
	crc_table[index] = crc
end

local function crc32(bytes)
	local crc = bit.bnot(0)
	for at = 1, #bytes do
		crc = bit.bxor(bit.rshift(crc, 8), crc_table[bit.band(bit.bxor(crc, bytes:byte(at)), 0xFF)])
	end
	return bit.bnot(crc) % 2 ^ 32
end

local function time(nanoseconds)
	return NSTime.new((nanoseconds / NANOSECONDS):tonumber(), (nanoseconds % NANOSECONDS):tonumber())
end

-- From and to: what Python calls not printable, but for what Unicode has not assigned.
local NOT_PRINTABLE = {
	{ 0x0, 0x1F }, { 0x7F, 0xA0 }, { 0xAD, 0xAD }, { 0x600, 0x605 }, { 0x61C, 0x61C }, { 0x6DD, 0x6DD },
	{ 0x70F, 0x70F }, { 0x890, 0x891 }, { 0x8E2, 0x8E2 }, { 0x1680, 0x1680 }, { 0x180E, 0x180E },
	{ 0x2000, 0x200F }, { 0x2028, 0x202F }, { 0x205F, 0x2064 }, { 0x2066, 0x206F }, { 0x3000, 0x3000 },
	{ 0xD800, 0xF8FF }, { 0xFEFF, 0xFEFF }, { 0xFFF9, 0xFFFB }, { 0x110BD, 0x110BD }, { 0x110CD, 0x110CD },
	{ 0x13430, 0x13438 }, { 0x1BCA0, 0x1BCA3 }, { 0x1D173, 0x1D17A }, { 0xE0001, 0xE0001 },
	{ 0xE0020, 0xE007F }, { 0xF0000, 0xFFFFD }, { 0x100000, 0x10FFFD },
}

local function is_printable(code)
	if code >= 0x20 and code <= 0x7E then return true end
	for _, range in ipairs(NOT_PRINTABLE) do
		if code <= range[2] then return code < range[1] end
	end
	return true
end

-- How long the character of UTF-8 is that begins at `at`, and its code point; nil if there is none.
local function character(bytes, at)
	local code = bytes:byte(at)
	if code < 0x80 then return 1, code end
	local length = code >= 0xC2 and code <= 0xDF and 2 or code >= 0xE0 and code <= 0xEF and 3
		or code >= 0xF0 and code <= 0xF4 and 4
	if not length then return end
	code = code % 2 ^ (7 - length)
	for next = at + 1, at + length - 1 do
		local byte = bytes:byte(next)
		if not byte or byte < 0x80 or byte > 0xBF then return end
		code = code * 64 + byte % 64
	end
	local is_short = length == 3 and code < 0x800 or length == 4 and code < 0x10000
	if is_short or code >= 0xD800 and code <= 0xDFFF or code > 0x10FFFF then return end
	return length, code
end

-- The text if the bytes are UTF-8 and printable, but for the ends of lines and tabs.
local function as_text(bytes)
	local at = bytes:find("[^\t\n\r\32-\126]")
	while at do
		local length, code = character(bytes, at)
		if not length or not is_printable(code) then return end
		at = bytes:find("[^\t\n\r\32-\126]", at + length)
	end
	return bytes
end

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function escape(code)
	local form = code < 0x100 and "\\x%02x" or code < 0x10000 and "\\u%04x" or "\\U%08x"
	return code < 0x80 and ESCAPES[string.char(code)] or form:format(code)
end

-- The bytes as text with escapes in place of what is not printable, as `kbus` shows what others have chosen.
local function printable(bytes)
	if not bytes:find("[^\32-\126]") then return bytes end
	local shown, at = {}, 1
	while at <= #bytes do
		local length, code = character(bytes, at)
		local is_shown = length and is_printable(code)
		table.insert(shown, is_shown and bytes:sub(at, at + length - 1) or escape(code or bytes:byte(at)))
		at = at + (length or 1)
	end
	return table.concat(shown)
end

local KIND_LETTERS = { announcement = "A", request = "Q", reply = "R", status = "S" }

-- The message as a line of `kbus listen` shows it, after the device; of long data only the beginning.
local function as_line(m)
	local kind = KIND_LETTERS[m.kind]
	local letters = ""
	for _, flag in ipairs(FLAGS) do
		if bit.band(m.flags, flag[1]) ~= 0 and not (kind == "S" and flag[2] == "s") then
			letters = letters .. flag[2]
		end
	end
	local user = bit.band(bit.rshift(m.flags, 16), 0x3FFF)
	local words = { m.id, kind .. letters .. (user ~= 0 and (":%04x"):format(user) or ""), "from " .. m.from }
	if m.to ~= 0 then table.insert(words, "to " .. m.to) end
	if m.in_reply_to then table.insert(words, "re " .. m.in_reply_to) end
	if m.orig_from then table.insert(words, "origin " .. m.orig_from) end
	if m.final_to then table.insert(words, "final " .. m.final_to) end
	table.insert(words, m.name)
	table.insert(words, m.data_length)
	if m.data_length > 0 then
		local shown = m.data:sub(1, INFO_DATA)
		if #shown < #m.data and m.text then shown = shown:gsub("[\192-\255][\128-\191]*$", "") end
		local quoted = m.text and '"' .. shown:gsub('["\\\n\r\t]', ESCAPES) .. '"'
			or shown:gsub(".", function(byte) return ("%02x"):format(byte:byte()) end)
		table.insert(words, quoted .. (#shown < #m.data and "..." or ""))
	end
	return table.concat(words, " ")
end

-- Taking a packet apart

-- What reads and shows numbers in the byte order of this packet.
local function in_order(little)
	local add, uint, uint64 = "add", "uint", "uint64"
	if little then add, uint, uint64 = "add_le", "le_uint", "le_uint64" end
	return {
		add = function(tree, ...) return tree[add](tree, ...) end,
		uint = function(range) return range[uint](range) end,
		uint64 = function(range) return range[uint64](range) end,
	}
end

local function what_is_wrong_with_frame(tvb, order)
	if tvb:len() < FRAME_HEADER then
		return tvb:len() < tvb:reported_len() and "cut when it was captured" or "too short for a frame header"
	end
	local version, length = order.uint(tvb(0, 2)), order.uint(tvb(2, 2))
	if version ~= FRAME_VERSION then return "layout of version " .. version end
	if length < FRAME_HEADER or length > tvb:len() then return "frame header of " .. length .. " bytes" end
end

local function show_frame(tvb, order, tree, number)
	tree = tree:add(kbus, tvb(0, order.uint(tvb(2, 2))), "Frame header of the recorder")
	order.add(tree, f.frame_version, tvb(0, 2))
	order.add(tree, f.frame_header_len, tvb(2, 2))
	local crc = order.add(tree, f.crc, tvb(4, 4))
	local status = "not checked"
	if tvb:len() < tvb:reported_len() then
		status = "not checked, as the packet is cut"
	elseif kbus.prefs.check_crc then
		local expected = crc32(tvb:raw(AFTER_CRC))
		status = order.uint(tvb(4, 4)) == expected and "good" or "bad"
		if status == "bad" then
			crc:add_proto_expert_info(e.bad_crc, ("The CRC is wrong: it should be 0x%08x"):format(expected))
		end
	end
	tree:add(f.crc_status, tvb(4, 4), status):set_generated()
	order.add(tree, f.sequence, tvb(8, 8))
	tree:add(f.monotonic, tvb(16, 8), time(order.uint64(tvb(16, 8))))
	local lost = order.add(tree, f.lost, tvb(24, 8))
	if order.uint(tvb(2, 2)) >= WITH_ORIGIN then
		order.add(tree, f.bus, tvb(32, 4))
		order.add(tree, f.recording, tvb(36, 4))
	end
	local here = lost_here[number]
	if here then
		tree:add(f.lost_here, tvb(24, 8), here):set_generated()
		lost:add_proto_expert_info(e.lost, tostring(here) .. " messages were lost since the packet before")
	end
end

-- Where the parts of the message are, of which `length` bytes were sent, or nil and what is wrong with it.
local function layout(tvb, order, length)
	if tvb:len() < math.min(length, MESSAGE_HEADER) then return nil, "cut when it was captured" end
	if length < MESSAGE_HEADER + END_GUARD_SIZE then return nil, "too short for a message" end
	if order.uint(tvb(0, 4)) ~= START_GUARD then return nil, "no start guard" end
	local flags, name_len, data_words = order.uint(tvb(28, 4)), order.uint(tvb(32, 4)), order.uint(tvb(36, 4))
	local at = { flags = flags, name_len = name_len, data_len = 4 * data_words }
	at.name = MESSAGE_HEADER + (bit.band(flags, EXTENDED) ~= 0 and EXTENSION or 0)
	at.data = at.name + 4 * math.ceil(name_len / 4)
	at.end_guard = at.data + at.data_len
	if at.end_guard + END_GUARD_SIZE ~= length then return nil, "its lengths do not match" end
	if at.data > tvb:len() then return nil, "cut when it was captured" end
	at.is_whole = tvb:len() == length
	if at.is_whole and order.uint(tvb(at.end_guard, END_GUARD_SIZE)) ~= END_GUARD then return nil, "no end guard" end
	-- A careless sender may claim padding where there is no data, and KBUS does not look.
	at.data_len = math.max(0, at.data_len - bit.rshift(flags, 30))
	at.data_there = math.min(at.data_len, tvb:len() - at.data)
	return at
end

-- A pair of numbers, as text; nil if both are 0, which means none.
local function read_pair(range, order)
	local first, second = order.uint(range(0, 4)), order.uint(range(4, 4))
	if first ~= 0 or second ~= 0 then return ("[%.0f:%.0f]"):format(first, second) end
end

local function read_message(tvb, order, at)
	local m = {
		id = read_pair(tvb(4, 8), order) or "[0:0]",
		in_reply_to = read_pair(tvb(12, 8), order),
		to = order.uint(tvb(20, 4)),
		from = order.uint(tvb(24, 4)),
		flags = at.flags,
		name = printable(tvb(at.name, at.name_len):raw()),
		data = at.data_there > 0 and tvb(at.data, at.data_there):raw() or "",
		data_length = at.data_len,
	}
	if at.name > MESSAGE_HEADER then
		m.orig_from, m.final_to = read_pair(tvb(40, 8), order), read_pair(tvb(48, 8), order)
	end
	-- The last letter may be cut.
	m.text = as_text(at.is_whole and m.data or m.data:gsub("[\192-\255][\128-\191]*$", ""))
	m.kind = m.in_reply_to and (bit.band(m.flags, SYNTHETIC) ~= 0 and "status" or "reply")
		or bit.band(m.flags, WANT_A_REPLY) ~= 0 and "request" or "announcement"
	return m
end

local function show_pair(tree, range, order, text, whole, first, second)
	local item = tree:add(whole, range, text or "none")
	order.add(item, first, range(0, 4))
	order.add(item, second, range(4, 4))
end

local function show_message(tvb, order, tree, at, m)
	tree:add(f.kind, m.kind):set_generated()
	order.add(tree, f.start_guard, tvb(0, 4))
	show_pair(tree, tvb(4, 8), order, m.id, f.id, f.id_network, f.id_serial)
	show_pair(tree, tvb(12, 8), order, m.in_reply_to, f.in_reply_to, f.in_reply_to_network, f.in_reply_to_serial)
	order.add(tree, f.to, tvb(20, 4))
	order.add(tree, f.from, tvb(24, 4))
	local flags = order.add(tree, f.flags, tvb(28, 4))
	for _, flag in ipairs(FLAGS) do order.add(flags, flag[3], tvb(28, 4)) end
	order.add(tree, f.name_len, tvb(32, 4))
	order.add(tree, f.data_len, tvb(36, 4))
	if at.name > MESSAGE_HEADER then
		show_pair(tree, tvb(40, 8), order, m.orig_from, f.orig_from, f.orig_from_network, f.orig_from_local)
		show_pair(tree, tvb(48, 8), order, m.final_to, f.final_to, f.final_to_network, f.final_to_local)
	end
	local name = tree:add(f.name, tvb(at.name, at.name_len), m.name)
	if at.data_there > 0 then
		tree:add(f.data, tvb(at.data, at.data_there))
		if m.text then tree:add_packet_field(f.data_text, tvb(at.data, #m.text), ENC_UTF_8) end
	end
	if at.is_whole then
		order.add(tree, f.end_guard, tvb(at.end_guard, END_GUARD_SIZE))
	else
		tree:add_proto_expert_info(e.cut)
	end
	return name
end

-- What KBUS itself says, statuses and events, and errors as answers. `data` is the range of it, or nil.
local function show_event(order, tree, name, m, data)
	-- A reply may have any name, those of KBUS too.
	if bit.band(m.flags, SYNTHETIC) == 0 then
		if m.name == "$.KBUS.Replier.Failed" and m.kind == "reply" then
			local kind, text = (data and data:raw() or ""):match("^([^\n]*)\n?(.*)$")
			name:add_proto_expert_info(e.failed, "The replier failed: " .. printable(kind .. ": " .. text))
		end
		return
	end
	if m.name == "$.KBUS.Replier.NoRoom" and m.kind == "status" then
		name:add_proto_expert_info(e.status, m.name .. ": the requester had no room for the answer")
	elseif m.kind == "status" then
		name:add_proto_expert_info(e.status, m.name .. ": KBUS answers for a replier who did not")
	elseif m.name == "$.KBUS.MessagesLost" and data and data:len() == 4 then
		order.add(tree, f.event_lost, data)
		name:add_proto_expert_info(e.lost, "The listener lost " .. order.uint(data) .. " messages")
	elseif m.name == "$.KBUS.UnbindEventsLost" then
		name:add_proto_expert_info(e.lost, "The listener lost events of unbinding")
	elseif m.name == "$.KBUS.ReplierBindEvent" and data and data:len() >= 12 then
		local length = order.uint(data(8, 4))
		order.add(tree, f.event_is_bind, data(0, 4))
		order.add(tree, f.event_binder, data(4, 4))
		order.add(tree, f.event_name_len, data(8, 4))
		if 12 + length <= data:len() then
			local bound = data(12, length)
			tree:add(f.event_name, bound, printable(bound:raw()))
		end
	end
end

local function show_exchange(tree, pinfo, m, monotonic)
	local request = exchanges[pinfo.number]
	if not request then
		if m.in_reply_to then tree:add_proto_expert_info(e.no_request) end
	elseif request.frame ~= pinfo.number then
		tree:add(f.answer_to, request.frame):set_generated()
		tree:add(f.response_time, time(monotonic - request.monotonic)):set_generated()
	elseif request.answer then
		tree:add(f.answer_in, request.answer):set_generated()
	elseif pinfo.visited then
		tree:add_proto_expert_info(e.no_answer)
	end
end

local function show(tvb, order, tree, pinfo)
	local wrong = what_is_wrong_with_frame(tvb, order)
	if wrong then return wrong end
	local monotonic = order.uint64(tvb(16, 8))
	note_packet(pinfo.number, order.uint64(tvb(8, 8)), monotonic, order.uint64(tvb(24, 8)))
	show_frame(tvb, order, tree, pinfo.number)
	local header = order.uint(tvb(2, 2))
	local inner = tvb(header):tvb()
	local at
	at, wrong = layout(inner, order, tvb:reported_len() - header)
	if wrong then return wrong end
	local m = read_message(inner, order, at)
	if not pinfo.visited then note_exchange(pinfo.number, m, monotonic) end
	local name = show_message(inner, order, tree, at, m)
	show_event(order, tree, name, m, at.data_there > 0 and inner(at.data, at.data_there))
	show_exchange(tree, pinfo, m, monotonic)
	pinfo.cols.src = m.from ~= 0 and "KSock " .. m.from or "KBUS"
	pinfo.cols.dst = m.to ~= 0 and "KSock " .. m.to or ""
	pinfo.cols.info = as_line(m)
	tree:append_text(", " .. m.kind .. " " .. m.name)
end

function kbus.dissector(tvb, pinfo, root)
	pinfo.cols.protocol = "KBUS"
	local tree = root:add(kbus, tvb())
	-- The version is a small number, and comes first.
	local little = tvb:len() > 0 and tvb(0, 1):uint() ~= 0
	local wrong = show(tvb, in_order(little), tree, pinfo)
	if wrong then
		pinfo.cols.info = "No packet of `kbus record`: " .. wrong
		tree:add_proto_expert_info(e.malformed, "No packet of `kbus record`: " .. wrong)
	end
end

DissectorTable.get("wtap_encap"):add(wtap_encaps.USER0, kbus)
