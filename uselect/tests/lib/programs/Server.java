// SPDX-License-Identifier: GPL-2.0

import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;

/** Server PORT: GET /N answers with N bytes, GET /child with what a child prints. One Selector. */
public class Server {
	static byte[] answer(String path) throws Exception {
		if (path.equals("/child")) {
			Process child = new ProcessBuilder("echo", "child").start();
			byte[] out = child.getInputStream().readAllBytes();
			child.waitFor();
			return out;
		}
		return "x".repeat(Integer.parseInt(path.substring(1))).getBytes(StandardCharsets.US_ASCII);
	}

	static class Connection {
		final StringBuilder in = new StringBuilder();
		ByteBuffer out = ByteBuffer.allocate(0);
	}

	static void serve(SelectionKey key) throws Exception {
		SocketChannel channel = (SocketChannel) key.channel();
		Connection connection = (Connection) key.attachment();
		ByteBuffer buffer = ByteBuffer.allocate(65536);

		if (key.isReadable()) {
			if (channel.read(buffer) < 0) {
				channel.close();
				return;
			}
			connection.in.append(StandardCharsets.US_ASCII.decode(buffer.flip()));
		}
		int end = connection.in.indexOf("\r\n\r\n");
		if (end >= 0 && !connection.out.hasRemaining()) {
			byte[] body = answer(connection.in.toString().split(" ")[1]);
			connection.in.delete(0, end + 4);
			byte[] head = ("HTTP/1.1 200 OK\r\nContent-Length: " + body.length + "\r\n\r\n")
				.getBytes(StandardCharsets.US_ASCII);
			connection.out = ByteBuffer.allocate(head.length + body.length).put(head).put(body).flip();
		}
		channel.write(connection.out);
		key.interestOps(connection.out.hasRemaining() ? SelectionKey.OP_WRITE : SelectionKey.OP_READ);
	}

	public static void main(String[] args) throws Exception {
		Selector selector = Selector.open();
		ServerSocketChannel listener = ServerSocketChannel.open();

		listener.bind(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])), 1000);
		listener.configureBlocking(false);
		listener.register(selector, SelectionKey.OP_ACCEPT);
		while (true) {
			selector.select();
			Iterator<SelectionKey> keys = selector.selectedKeys().iterator();
			while (keys.hasNext()) {
				SelectionKey key = keys.next();
				keys.remove();
				if (key.isAcceptable()) {
					SocketChannel channel = listener.accept();
					if (channel != null) {
						channel.configureBlocking(false);
						channel.register(selector, SelectionKey.OP_READ, new Connection());
					}
					continue;
				}
				try {
					serve(key);
				} catch (java.io.IOException gone) {
					key.channel().close();
				}
			}
		}
	}
}
